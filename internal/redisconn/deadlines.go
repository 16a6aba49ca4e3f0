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
// lateBy, which is not the server's doing, gets that much more, once for each deadline.
func DeferDeadlines(c net.Conn) net.Conn { return &deferringConn{Conn: c} }

type deferringConn struct {
	net.Conn
	readBy, writeBy time.Time
	isMoved         bool // readBy is later than the deadline that was set
}

const lateBy = 2 * time.Millisecond

func (c *deferringConn) SetDeadline(t time.Time) error {
	c.readBy, c.writeBy, c.isMoved = t, t, false
	return nil
}

func (c *deferringConn) SetReadDeadline(t time.Time) error {
	c.readBy, c.isMoved = t, false
	return nil
}

func (c *deferringConn) SetWriteDeadline(t time.Time) error {
	c.writeBy = t
	return nil
}

func (c *deferringConn) Read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.readBy); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n == 0 && err != nil && isTimeout(err) && !c.isMoved && time.Since(c.readBy) > lateBy {
		c.readBy, c.isMoved = time.Now().Add(lateBy), true
		return c.Read(p)
	}
	return n, err
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
