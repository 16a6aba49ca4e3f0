package pipeline

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// silentConn is a connection that counts flushes and has no reply before it ends.
type silentConn struct {
	mortalConn
	flushed chan struct{} // one for each flush
	ended   chan struct{}
}

func (c *silentConn) Flush() error {
	c.flushed <- struct{}{}
	return nil
}

func (c *silentConn) ReceiveWithTimeout(time.Duration) (any, error) {
	<-c.ended
	return nil, c.die(errHungUp)
}

// Callers that are about to run while replies are due share a write.
func TestCallersShareAWrite(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each Start wakes the writer before the next caller
	const callers = 64
	c := &silentConn{flushed: make(chan struct{}, callers+1), ended: make(chan struct{})}
	lifetime, end := context.WithCancel(t.Context())
	connected := false
	p := newPipe(lifetime, time.Minute, func(context.Context) (redis.ConnWithTimeout, error) {
		if connected {
			return nil, errors.New("once")
		}
		connected = true
		return c, nil
	})
	call := scripts.Raise(nil, scripts.OwnerOf("o:1"), 1)
	testkit.Must(t, p.Start(call, nil, nil))
	<-c.flushed
	testkit.Eventually(t, "the reader waits for a reply", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.isReading
	})

	var done sync.WaitGroup
	for range callers {
		done.Go(func() { p.Start(call, nil, nil) })
	}
	done.Wait()
	for range callers {
		runtime.Gosched() // the writer writes what is left
	}
	n := len(c.flushed)
	testkit.Check(t, n != 0 && n <= callers/4, "%d writes for %d calls", n, callers)
	close(c.ended)
	end()
	closeAndWait(p)
}
