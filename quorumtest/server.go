package quorumtest

import (
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/world"
)

// listen has a master listen, unless it is in a bubble, and returns its address.
func (f *fleet) listen(master int) (address string, err error) {
	if inBubble() {
		return world.Address(master), nil
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	f.isOutside = true
	var accepting sync.WaitGroup
	accepting.Go(func() { f.accept(master, l) })
	f.starter.Cleanup(func() {
		l.Close()
		accepting.Wait()
	})
	return l.Addr().String(), nil
}

// Go seeds its source of randomness when it is first read. In FIPS mode it measures then how long instructions take, and in
// a bubble they take no time.
var _ = rand.Text()

// inBubble reports whether the caller is in a testing/synctest bubble, where time begins with the
// year 2000. A listener would keep the bubble's time from passing.
func inBubble() bool { return time.Now().Year() < 2020 }

// checkBubble fails the test that uses masters in a bubble in which they were not started: otherwise Go's runtime ends the program.
func (f *fleet) checkBubble() {
	f.starter.Helper()
	if inBubble() && f.isOutside {
		f.starter.Fatalf("quorumtest: the masters were started outside this testing/synctest bubble: call Start in it")
	}
}

func (f *fleet) accept(master int, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // probably out of file descriptors
			continue
		}
		if f.world.Serve(master, conn) != nil {
			conn.Close()
		}
	}
}
