package fleet

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// conn is a connection of a process to a master: the net.Conn at the process's end, and what the master
// keeps of it.
type conn struct {
	from, to addr
	up, down *wire

	mu       sync.Mutex
	in       []byte // arrived and not read
	closed   bool   // by this end
	ended    bool   // by the other end
	deadline time.Time
	ready    chan struct{} // receives a value when something has changed
	timer    *time.Timer   // of reads
	opened   chan struct{} // closed when the master has accepted

	// Of the master's goroutine.
	redis   *fakeredis.Connection // nil before the connection is open, and after its end
	pending []byte                // the beginning of a command
}

// dial makes a connection, which takes a round trip.
func dial(ctx context.Context, from addr, up, down *wire, to addr) (net.Conn, error) {
	c := &conn{from: from, to: to, up: up, down: down, ready: make(chan struct{}, 1), opened: make(chan struct{})}
	up.send(parcel{conn: c, kind: opening})
	select {
	case <-c.opened:
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
}

// arrived takes what has come from the master.
func (c *conn) arrived(p parcel) {
	if p.kind == opening {
		close(c.opened)
		return
	}
	c.mu.Lock()
	c.in = append(c.in, p.data...)
	c.ended = c.ended || p.kind == closing
	c.mu.Unlock()
	c.change()
}

func (c *conn) change() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Read has one caller at a time.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, deadline, err := c.readNow(p)
		if n > 0 || err != nil {
			return n, err
		}
		if deadline.IsZero() {
			<-c.ready
			continue
		}
		if c.timer == nil {
			c.timer = time.NewTimer(time.Until(deadline))
		} else {
			c.timer.Reset(time.Until(deadline))
		}
		select {
		case <-c.ready:
		case <-c.timer.C:
		}
		c.timer.Stop()
	}
}

func (c *conn) readNow(p []byte) (n int, deadline time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, time.Time{}, net.ErrClosed
	case len(c.in) > 0:
		n = copy(p, c.in)
		if c.in = c.in[n:]; len(c.in) == 0 {
			c.in = nil
		}
		return n, time.Time{}, nil
	case c.ended:
		return 0, time.Time{}, io.EOF
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return 0, time.Time{}, os.ErrDeadlineExceeded
	}
	return 0, c.deadline, nil
}

// Write never blocks: the data under way has no bound.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	c.up.send(parcel{conn: c, data: append([]byte(nil), p...)})
	return len(p), nil
}

func (c *conn) Close() error {
	c.mu.Lock()
	already := c.closed
	c.closed, c.in = true, nil
	c.mu.Unlock()
	if !already {
		c.up.send(parcel{conn: c, kind: closing})
		c.change()
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	c.change()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
func (c *conn) LocalAddr() net.Addr              { return c.from }
func (c *conn) RemoteAddr() net.Addr             { return c.to }

type addr string

func (addr) Network() string  { return "fleet" }
func (a addr) String() string { return string(a) }
