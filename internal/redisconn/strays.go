package redisconn

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
)

// ErrStray: a reply came that no command had asked for. The next command would take it for its own: a lock could be held
// by nobody's grant.
var ErrStray = errors.New("a reply came that nobody had asked for: a proxy that answers twice, or no Redis server?")

// RefuseStrays returns a connection to a server that ends with [ErrStray] when there are more replies than commands, or
// when one is there before its command is written. The latter shows only on a socket without TLS. A connection that
// subscribes gets messages: what comes over it is not counted from then on. Replies are limited as by [LimitReplies].
func RefuseStrays(c net.Conn) net.Conn {
	return &strictConn{limitedConn: LimitReplies(DeferDeadlines(c)).(*limitedConn), isReadable: readable(c)}
}

// strictConn is written to by one goroutine at a time, and read by one.
type strictConn struct {
	*limitedConn
	isReadable func() bool // see readable
	commands   atomic.Int64
	subscribes atomic.Bool

	// What the writer has parsed of the command that it writes.
	header   byte // the first byte of a header's line: an array's or a bulk string's; 0 before it
	value    int  // of the header
	skip     int  // bytes of a bulk string still to come, with its CRLF
	isName   bool // it is the command's name
	nameRead []byte
}

func (s *strictConn) Read(p []byte) (int, error) {
	n, err := s.limitedConn.Read(p)
	begun := s.replies.Load()
	if len(s.line) > 0 || len(s.open) > 0 || s.limitedConn.skip > 0 {
		begun++
	}
	if begun > s.commands.Load() && !s.subscribes.Load() {
		return 0, ErrStray
	}
	return n, err
}

func (s *strictConn) Write(p []byte) (int, error) {
	// Before its first reply a server may say why it hangs up.
	if replies := s.replies.Load(); replies > 0 && replies == s.commands.Load() && !s.subscribes.Load() && s.isReadable() {
		return 0, ErrStray
	}
	s.parse(p) // before the reply can come
	return s.limitedConn.Write(p)
}

// parse counts the commands in what redigo writes.
func (s *strictConn) parse(p []byte) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip -= n
			if s.isName {
				s.nameRead, s.isName = append(s.nameRead, p[:n]...), s.skip > 0
				if strings.HasSuffix(strings.ToUpper(strings.TrimSpace(string(s.nameRead))), "SUBSCRIBE") {
					s.subscribes.Store(true)
				}
			}
			p = p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		switch {
		case s.header == 0:
			s.header, s.value = b, 0
		case b >= '0': // a digit
			s.value = s.value*10 + int(b-'0')
		case b == '\r':
		case s.header == '*':
			s.header, s.isName, s.nameRead = 0, true, s.nameRead[:0]
			s.commands.Add(1)
		default:
			s.header, s.skip = 0, s.value+2
		}
	}
}
