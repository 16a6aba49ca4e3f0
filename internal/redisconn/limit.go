package redisconn

import (
	"errors"
	"net"
)

// Bounds of a reply to our commands. redigo has none: it allocates what a reply's header announces,
// and recurses into arrays, so a hostile server could end the process.
const (
	maxBulk   = 1 << 20
	maxArray  = 1 << 12
	maxDepth  = 8
	maxLine   = 1 << 14
	maxDigits = 19      // of an integer: in redigo a longer one overflows
	maxTotal  = 1 << 20 // bytes of bulk strings and elements of arrays in one reply, nested ones included
)

var errTooLarge = errors.New("the reply is larger than any reply to our commands")

// LimitReplies returns the connection with bounds on its incoming RESP stream: see the constants. A
// reply that exceeds one makes Read fail for good.
func LimitReplies(c net.Conn) net.Conn { return &limitedConn{Conn: c} }

type limitedConn struct {
	net.Conn
	line  int   // bytes of the current line read so far
	kind  byte  // the line's first byte
	value int   // of a length header, −1 when negative; of an integer, the number of its characters
	total int   // see maxTotal
	skip  int   // bytes of a bulk string still to come, with its CRLF
	open  []int // elements still to come in each open array
	err   error

	replied func() // is called for each reply, at its last line; nil for nothing
}

// Read is called by one goroutine at a time, as redigo does.
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	if c.err = c.scan(p[:n]); c.err != nil {
		return 0, c.err
	}
	return n, err
}

func (c *limitedConn) scan(p []byte) error {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			if c.skip -= n; c.skip == 0 {
				c.endElement()
			}
			p = p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		if b == '\n' {
			if err := c.endLine(); err != nil {
				return err
			}
			continue
		}
		if c.line++; c.line > maxLine {
			return errTooLarge
		}
		switch {
		case c.line == 1:
			c.kind, c.value = b, 0
		case c.kind == ':':
			if c.value++; c.value > maxDigits && b >= '0' && b <= '9' {
				return errTooLarge
			}
		case b == '-':
			c.value = -1
		case b >= '0' && b <= '9' && c.value >= 0 && (c.kind == '$' || c.kind == '*'):
			if c.value = c.value*10 + int(b-'0'); c.value > maxBulk || c.kind == '*' && c.value > maxArray {
				return errTooLarge
			}
		}
	}
	return nil
}

func (c *limitedConn) endLine() error {
	kind, value := c.kind, c.value
	c.line, c.kind = 0, 0
	if (kind == '$' || kind == '*') && value > 0 {
		if c.total += value; c.total > maxTotal {
			return errTooLarge
		}
	}
	if kind == '$' && value >= 0 {
		c.skip = value + 2
		return nil
	}
	if kind == '*' && value > 0 {
		if len(c.open) == maxDepth {
			return errTooLarge
		}
		c.open = append(c.open, value)
		return nil
	}
	c.endElement()
	return nil
}

// endElement notes that an element is complete. It may complete the arrays around it.
func (c *limitedConn) endElement() {
	for len(c.open) > 0 {
		last := &c.open[len(c.open)-1]
		if *last--; *last > 0 {
			break
		}
		c.open = c.open[:len(c.open)-1]
	}
	if len(c.open) == 0 {
		c.total = 0
		if c.replied != nil {
			c.replied()
		}
	}
}
