package redisconn

import (
	"net"
	"time"
)

// DeferDeadlines returns the connection with deadlines that reach it with the next read or write,
// and leave one under way alone. redigo sets a deadline for each command and for each reply, and
// most of them need no system call: redigo's buffers hold many.
//
// A write to a server that has hung up is no error: redigo would close the connection, and lose what
// the server said before. A read returns that, and then the error.
//
// A process that stood still finds the deadline passed, and perhaps the reply there: a read that ends late by more than
// lateBy, which is not the server's doing, gets that much more, once.
func DeferDeadlines(c net.Conn) net.Conn { return &deferringConn{Conn: c} }

type deferringConn struct {
	net.Conn
	readBy, writeBy time.Time
}

const lateBy = 2 * time.Millisecond

func (c *deferringConn) SetDeadline(t time.Time) error {
	c.readBy, c.writeBy = t, t
	return nil
}

func (c *deferringConn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return nil
}

func (c *deferringConn) SetWriteDeadline(t time.Time) error {
	c.writeBy = t
	return nil
}

func (c *deferringConn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if n == 0 && isTimeout(err) && time.Since(c.readBy) > lateBy {
		c.readBy = time.Now().Add(lateBy)
		return c.read(p)
	}
	return n, err
}

func (c *deferringConn) read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.readBy); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *deferringConn) Write(p []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(c.writeBy); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if IsBroken(err) {
		return len(p), nil
	}
	return n, err
}
