package redisconn

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
)

// Bounds of a reply to our commands. redigo has none: it allocates what a reply's header announces,
// and recurses into arrays, so a hostile server could end the process.
const (
	maxArray = 1 << 12
	maxDepth = 8
	maxLine  = 1 << 14
	maxTotal = 1 << 20 // bytes of bulk strings and elements of arrays in one reply, nested ones included
)

var errTooLarge = errors.New("the reply is larger than any reply to our commands")

// LimitReplies returns the connection with bounds on its incoming RESP stream: see the constants. A
// reply that exceeds one makes Read fail for good.
func LimitReplies(c net.Conn) net.Conn { return &limitedConn{Conn: c} }

type limitedConn struct {
	net.Conn
	line  []byte // the current line, as far as it was read
	total int    // see maxTotal
	skip  int    // bytes of a bulk string still to come, with its CRLF
	open  []int  // elements still to come in each open array
	err   error

	replies atomic.Int64 // that were read to their ends
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
		text, rest, isWhole := bytes.Cut(p, []byte("\n"))
		if c.line = append(c.line, text...); len(c.line) > maxLine {
			return errTooLarge
		}
		if isWhole {
			if err := c.endLine(); err != nil {
				return err
			}
		}
		p = rest
	}
	return nil
}

func (c *limitedConn) endLine() error {
	line, kind, value := bytes.TrimRight(c.line, "\r"), byte(0), 0
	c.line = c.line[:0]
	if len(line) > 0 {
		kind, line = line[0], line[1:]
	}
	switch kind {
	case ':': // redigo lets it overflow. A time to live of another program's may be near 64 bits
		if _, err := strconv.ParseInt(string(line), 10, 64); errors.Is(err, strconv.ErrRange) {
			return errTooLarge
		}
	case '$', '*':
		value, _ = strconv.Atoi(string(line)) // redigo refuses what is no number
		if kind == '*' && value > maxArray || value > maxTotal-c.total {
			return errTooLarge
		}
		c.total += max(value, 0)
	}
	switch {
	case kind == '$' && value >= 0:
		c.skip = value + len("\r\n")
	case value > 0:
		if len(c.open) == maxDepth {
			return errTooLarge
		}
		c.open = append(c.open, value)
	default:
		c.endElement()
	}
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
		c.replies.Add(1)
	}
}
