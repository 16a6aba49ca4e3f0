package redisconn

import (
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// deadlineCount counts the deadlines that reach a connection.
type deadlineCount struct {
	stream
	reads, writes int
}

func (c *deadlineCount) SetReadDeadline(time.Time) error  { c.reads++; return nil }
func (c *deadlineCount) SetWriteDeadline(time.Time) error { c.writes++; return nil }

func TestBufferedCommandsAndRepliesSetNoDeadline(t *testing.T) {
	socket := &deadlineCount{stream: stream{data: ":1\r\n:2\r\n:3\r\n", chunk: 100}}
	c := redis.NewConn(DeferDeadlines(socket), timeout, timeout)
	for range 3 {
		testkit.Must(t, c.Send("PING"))
	}
	testkit.Must(t, c.Flush())
	for range 3 {
		if _, err := c.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if socket.reads != 1 || socket.writes != 1 {
		t.Errorf("%d deadlines of reads and %d of writes, want one of each", socket.reads, socket.writes)
	}
}

// redigo's own bound of a write holds.
func TestADeferredWriteDeadline(t *testing.T) {
	inBubble(t, timeout, DeferDeadlines, func(t *testing.T, c redis.Conn, _ net.Conn) {
		began := time.Now()
		err := c.Send("PING")
		if err == nil {
			err = c.Flush()
		}
		if d := time.Since(began); d != timeout || !isTimeout(err) {
			t.Errorf("the write ended after %v: %v, want a timeout after %v", d, err, timeout)
		}
	})
}

func TestADeferredDeadlineIsForBoth(t *testing.T) {
	ours, server := net.Pipe()
	defer server.Close()
	defer ours.Close()
	c := DeferDeadlines(ours)
	testkit.Must(t, c.SetDeadline(time.Unix(1, 0)))
	if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("the read ends with %v", err)
	}
	if _, err := c.Write([]byte("x")); !isTimeout(err) {
		t.Errorf("the write ends with %v", err)
	}
}
