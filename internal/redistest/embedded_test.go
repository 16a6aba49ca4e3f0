package redistest_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// runAll repeats f in n goroutines until the test ends or f fails, which fails the test.
func runAll(t *testing.T, n int, f func() error) {
	t.Helper()
	done := make(chan struct{})
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { close(done) })
	for range n {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// A client of a master that crashes loses its connection. It never gets an error reply: that would
// mean that the server looked at the command and refused it.
func TestEmbeddedKillAndStartGiveClientsNoErrorReplies(t *testing.T) {
	m := standin.ForTest(t, 1).Masters[0]
	runAll(t, 32, func() error { return firstErrorReply(m) })
	for range 50 {
		testkit.Must(t, m.Kill())
		testkit.Must(t, m.Start())
		mustDo(t, m, "PING")
	}
}

// firstErrorReply sends commands on one connection until it breaks, or one is refused.
func firstErrorReply(m *redistest.Master) error {
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(time.Second))
	if err != nil {
		return nil
	}
	defer conn.Close()
	for range 20 {
		_, err := conn.Do("SET", "k", "v")
		var reply redis.Error
		if errors.As(err, &reply) {
			return reply
		}
		if err != nil {
			return nil
		}
	}
	return nil
}
