package redisconn

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A refused password is tried rarely, since the server may lock the user out; a master that was restarted
// is found at once.
func TestHowOftenAFailedConnectionIsTried(t *testing.T) {
	for _, c := range []struct {
		err         error
		least, most int // in ten minutes
	}{
		{redis.Error("WRONGPASS invalid username-password pair or user is disabled."), 20, 45},
		{redis.Error("LOADING Redis is loading the dataset in memory"), 100, 160},
		{ErrTimeout, 100, 160},
		{io.EOF, 2000, 3000},
		{syscall.ECONNREFUSED, 2000, 3000},
		{errors.New("no such host"), 100, 160},
		{errors.Join(ErrNoMaster, ErrTimeout), 550, 650},
		{fmt.Errorf("%w: the server has 0 replicas", ErrNotReplicated), 500, 800},
		{errors.Join(ErrNoMaster, redis.Error("WRONGPASS")), 20, 45},
	} {
		var b Backoff
		rng := rand.New(rand.NewPCG(1, 2))
		tries := 0
		for passed := time.Duration(0); passed < 10*time.Minute; tries++ {
			passed += b.Next(c.err, rng)
		}
		testkit.Check(t, tries >= c.least && tries <= c.most,
			"%v: tried %d times in ten minutes, want %d to %d", c.err, tries, c.least, c.most)
		b.Reset()
		first := b.Next(c.err, rng)
		testkit.Check(t, first <= 2*minBackoff, "%v: the first pause is %v", c.err, first)
	}
}

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
		testkit.Got(c.Receive())(t)
	}
	testkit.Check(t, socket.reads == 1 && socket.writes == 1,
		"%d deadlines of reads and %d of writes, want one of each", socket.reads, socket.writes)
}

// redigo's own bound of a write holds.
func TestADeferredWriteDeadline(t *testing.T) {
	inBubble(t, timeout, DeferDeadlines, func(t *testing.T, c redis.Conn, _ net.Conn) {
		began := time.Now()
		err := c.Send("PING")
		if err == nil {
			err = c.Flush()
		}
		d := time.Since(began)
		testkit.Check(t, d == timeout && isTimeout(err),
			"the write ended after %v: %v, want a timeout after %v", d, err, timeout)
	})
}

func TestADeferredDeadlineIsForBoth(t *testing.T) {
	ours, server := net.Pipe()
	defer server.Close()
	defer ours.Close()
	c := DeferDeadlines(ours)
	testkit.Must(t, c.SetDeadline(time.Unix(1, 0)))
	_, err := c.Read(make([]byte, 1))
	testkit.Check(t, isTimeout(err), "the read ends with %v", err)
	_, err = c.Write([]byte("x"))
	testkit.Check(t, isTimeout(err), "the write ends with %v", err)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
