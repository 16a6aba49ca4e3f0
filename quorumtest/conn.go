package quorumtest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// dial makes a connection in memory to a master. Other addresses are the network's.
func (p *process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.pass()
	for i, s := range p.masters.servers {
		if s.address != address {
			continue
		}
		p.mu.Lock()
		c := &conn{process: p, master: i, number: p.dialed[i]}
		p.dialed[i]++
		p.mu.Unlock()
		if err := c.connect(ctx, s); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return c, nil
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// conn is the process's end of a connection to a master.
type conn struct {
	net.Conn
	process        *process
	master, number int
	reads, writes  deadline
}

func (c *conn) connect(ctx context.Context, s *server) error {
	by, _ := ctx.Deadline()
	if err := c.carry(true, by); err != nil {
		return err
	}
	ours, theirs := net.Pipe()
	c.Conn = ours
	return s.serve(theirs)
}

// carry takes the time that data takes on its way, or loses it. by is the deadline, or zero.
func (c *conn) carry(up bool, by time.Time) error {
	if f := c.process.masters.exploration; f != nil {
		return f.carry(c, up, by)
	}
	return nil
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		err = c.carry(false, c.reads.get())
	}
	c.process.pass()
	c.process.take(c.turn(false))
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (c *conn) Write(b []byte) (int, error) {
	c.process.pass()
	err := c.carry(true, c.writes.get())
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.process.take(c.turn(true))
	return n, err
}

// turn returns when data comes out of one direction of the connection.
func (c *conn) turn(up bool) turn {
	return turn(c.number%64*128 + c.process.number%8*16 + c.master%8*2 + bit(up))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.reads.set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writes.set(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

type deadline struct {
	mu sync.Mutex
	at time.Time
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
}

func (d *deadline) get() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}
