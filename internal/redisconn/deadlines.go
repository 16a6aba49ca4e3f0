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
func DeferDeadlines(c net.Conn) net.Conn { return &deferringConn{Conn: c} }

type deferringConn struct {
	net.Conn
	readBy, writeBy time.Time
}

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
