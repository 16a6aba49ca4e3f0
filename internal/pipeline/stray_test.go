package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/scripts"
)

// strayConn is a connection to a server that has sent a reply too many, and hangs up: a write fails
// while a reply can still be read.
type strayConn struct {
	mortalConn
	stray []any
}

func (c *strayConn) Flush() error { return c.die(errHungUp) }

func (c *strayConn) ReceiveWithTimeout(time.Duration) (any, error) {
	if len(c.stray) == 0 {
		return nil, c.die(errHungUp)
	}
	reply := c.stray[0]
	c.stray = c.stray[1:]
	return reply, nil
}

// A reply that no request had asked for leaves the reader without a request when the write fails:
// nobody would notice that the connection is dead, and every later call would wait for ever.
func TestAStrayReplyBeforeAHangUp(t *testing.T) {
	lifetime, end := context.WithCancel(t.Context())
	p := newPipe(lifetime, time.Second, func(context.Context) (redis.ConnWithTimeout, error) {
		return &strayConn{stray: []any{int64(1)}}, nil
	})
	for range 3 {
		answered := make(resultChan, 1)
		if err := p.Start(scripts.Release(nil, scripts.OwnerOf("o:1"), 0), nil, answered); err != nil {
			break // the pipe is down, and says so
		}
		select {
		case <-answered:
		case <-time.After(10 * time.Second):
			t.Fatal("a call after the hang-up has no outcome")
		}
	}
	end()
	ended := make(chan struct{})
	go func() {
		closeAndWait(p)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("Close does not end")
	}
}
