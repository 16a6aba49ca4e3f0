package clitest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// WithClock starts a master with a clock of its own, and returns its URL.
func WithClock(t *testing.T, now func() time.Time) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	var serving sync.WaitGroup
	master := fakeredis.New(now, uint64(listener.Addr().(*net.TCPAddr).Port))
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { master.Serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		master.Crash(fakeredis.Nothing)
		serving.Wait()
	})
	return "redis://" + listener.Addr().String()
}
