package redisconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// stream is a connection that returns a number of its bytes with each read.
type stream struct {
	net.Conn
	data  string
	chunk int
}

func (s *stream) Read(p []byte) (int, error) {
	if s.data == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.chunk)], s.data)
	s.data = s.data[n:]
	return n, nil
}

func (s *stream) Write(p []byte) (int, error)      { return len(p), nil }
func (s *stream) Close() error                     { return nil }
func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

const nested = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"

func TestGoodRepliesPass(t *testing.T) {
	for what, replies := range map[string][]string{
		"short ones":   {"+OK\r\n", "-ERR no\r\n", ":-5\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "*0\r\n", "$5\r\nhello\r\n", "+\r\n"},
		"arrays":       {"*3\r\n:1\r\n$-1\r\n*2\r\n+a\r\n*0\r\n", "*2\r\n*1\r\n:1\r\n*1\r\n$1\r\nx\r\n", ":1\r\n"},
		"deep ones":    {nested + "*2\r\n:1\r\n:2\r\n", nested + "*0\r\n", nested + "$1\r\nx\r\n", nested + ":1\r\n", "*1\r\n" + nested + ":1\r\n"},
		"long ones":    {"$1048576\r\n" + strings.Repeat("x", maxTotal) + "\r\n", "*4096\r\n" + strings.Repeat(":1\r\n", maxArray), "+OK\r\n"},
		"a long line":  {"+" + strings.Repeat("x", maxLine-2) + "\r\n", "+OK\r\n"},
		"integers":     {":9223372036854775807\r\n", ":-9223372036854775808\r\n"}, // a time to live may be near the first
		"binary bulks": {"$24\r\n*99999999\r\n$99999999\r\n\r\n\r\n", "$3\r\n$9\n\r\n", "+$9999999\r\n", "-*9999999\r\n", ":99999999999\r\n"},
	} {
		whole := strings.Join(replies, "")
		for _, chunk := range []int{1, 2, 3, 7, 4096, len(whole)} {
			if len(whole) > 100*maxLine && chunk < 7 {
				continue // too slow
			}
			got, err := io.ReadAll(LimitReplies(&stream{data: whole, chunk: chunk}))
			testkit.Check(t, err == nil && string(got) == whole,
				"%s, %d bytes at a time: %d of %d bytes came through: %v", what, chunk, len(got), len(whole), err)
			c := redis.NewConn(LimitReplies(&stream{data: whole, chunk: chunk}), 0, 0)
			for i := range replies {
				_, err := c.Receive()
				testkit.Check(t, c.Err() == nil, "%s, %d bytes at a time: reply %d: %v", what, chunk, i, err)
			}
		}
	}
	testkit.Got(io.ReadAll(LimitReplies(&stream{data: "\n", chunk: 1})))(t) // redigo refuses it
}

func TestTooLargeReplies(t *testing.T) {
	for what, reply := range map[string]string{
		"a bulk":                    "$1048577\r\n",
		"a bulk beyond 64 bits":     "$99999999999999999999999999\r\n",
		"a bulk that overflows":     "$18446744073709551617\r\n",
		"a bulk behind others":      "*2\r\n$1048570\r\n" + strings.Repeat("x", 1048570) + "\r\n$7\r\n",
		"an overflow behind others": "*2\r\n$1\r\nx\r\n$99999999999999999999999999\r\n",
		"an integer that overflows": ":9223372036854775808\r\n",
		"another that does":         ":99999999999999999999\r\n",
		"a negative one that does":  ":-9223372036854775809\r\n",
		"an array":                  "*4097\r\n",
		"an array beyond 64 bits":   "*99999999999999999999999999\r\n",
		"a deep array":              nested + "*1\r\n*1\r\n",
		"a deep array of several":   "*2\r\n:1\r\n" + nested + "*1\r\n",
		"a deep array after bulks":  strings.Repeat("*2\r\n$1\r\nx\r\n", maxDepth+1),
		"a long line":               "+" + strings.Repeat("x", maxLine),
		"a long error":              "-" + strings.Repeat("x", maxLine) + "\r\n",
		"a long header":             "$" + strings.Repeat("0", maxLine) + "1\r\n",
		"a bulk in an array":        "*2\r\n:1\r\n$1048577\r\n",
		"an array after a bulk":     "*2\r\n$2\r\n\r\n\r\n*4097\r\n",
		"an array after good ones":  "+OK\r\n*2\r\n:1\r\n:2\r\n$-1\r\n*5000\r\n",
		"a bulk after a deep array": nested + "*1\r\n:1\r\n$9999999\r\n",
	} {
		for _, chunk := range []int{1, 3, len(reply)} {
			if len(reply) > 100*maxLine && chunk < len(reply) {
				continue // too slow
			}
			limited := LimitReplies(&stream{data: reply + strings.Repeat(":1\r\n", 10_000), chunk: chunk})
			passed, err := io.ReadAll(limited)
			testkit.Check(t, errors.Is(err, errTooLarge) && len(passed) <= len(reply),
				"%s, %d bytes at a time: %d bytes passed, then %v", what, chunk, len(passed), err)
			n, err := limited.Read(make([]byte, 10))
			testkit.Check(t, n == 0 && errors.Is(err, errTooLarge), "%s: then another %d bytes pass (%v)", what, n, err)
			c := redis.NewConn(LimitReplies(&stream{data: reply, chunk: chunk}), 0, 0)
			for c.Err() == nil {
				c.Receive()
			}
			testkit.Check(t, errors.Is(c.Err(), errTooLarge), "%s: the connection ends with %v", what, c.Err())
		}
	}
}

// The bytes that pass are the bytes that came, up to the reply that is refused.
func FuzzLimit(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nabc\r\n:1\r\n"), 1)
	f.Add([]byte("$-1\r\n*-1\r\n$5\r\n"), 3)
	f.Add([]byte("\r\n\n$\r\n*\r\n$1-1\r\n"), 2)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		chunk = max(1, chunk&0xff)
		passed, err := io.ReadAll(LimitReplies(&stream{data: string(data), chunk: chunk}))
		if !bytes.HasPrefix(data, passed) || err == nil && len(passed) != len(data) || err != nil && !errors.Is(err, errTooLarge) {
			t.Errorf("%q of %q passed (%v)", passed, data, err)
		}
		c := redis.NewConn(LimitReplies(&stream{data: string(data), chunk: chunk}), 0, 0)
		for c.Err() == nil {
			c.Receive() // must not panic, nor allocate more than was sent
		}
	})
}
