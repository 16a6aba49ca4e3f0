package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

// proxied is a connection to a server whose answers the test writes.
func proxied(t *testing.T, network string) (client redis.Conn, socket, server net.Conn) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		dir := testkit.Got(os.MkdirTemp("", "socket"))(t) // the path of t.TempDir is too long for a socket
		t.Cleanup(func() { os.RemoveAll(dir) })
		at = filepath.Join(dir, "s")
	}
	listener := testkit.Opened(net.Listen(network, at))(t)
	socket = testkit.Got(net.Dial(network, listener.Addr().String()))(t)
	server = testkit.Got(listener.Accept())(t)
	client = redis.NewConn(RefuseStrays(socket), 5*time.Second, 5*time.Second)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, socket, server
}

func awaitReadable(t *testing.T, socket net.Conn) {
	t.Helper()
	testkit.Check(t, poll.Until(5*time.Second, readable(socket)), "nothing has arrived")
}

// A reply that nobody asked for ends the connection before the next command could take it for its own.
func TestStrayReplies(t *testing.T) {
	const grant = ":1790000000000000\r\n"
	for what, answers := range map[string]string{
		"a second grant":                      grant + grant,
		"a second refusal":                    "*2\r\n$4\r\nheld\r\n:5\r\n" + "*2\r\n$4\r\nheld\r\n:5\r\n",
		"a second error":                      "-OOM no\r\n-OOM no\r\n",
		"the beginning of one":                grant + ":17",
		"the beginning of a text":             grant + "$4\r\n",
		"the beginning of an array":           grant + "*2\r\n",
		"the end of an array that was longer": "*1\r\n:1\r\n:2\r\n",
	} {
		for _, network := range []string{"tcp", "unix"} {
			client, socket, server := proxied(t, network)
			for _, c := range []string{"AUTH", "EVALSHA"} {
				testkit.Must(t, client.Send(c, "acquire", strings.Repeat("x", 5000), "subscribe"))
			}
			testkit.Must(t, client.Flush())
			testkit.Got(server.Write([]byte("+OK\r\n" + answers[:len(answers)/2])))(t)
			testkit.Got(client.Receive())(t)
			testkit.Got(server.Write([]byte(answers[len(answers)/2:])))(t)
			client.Receive() // of the second command; the stray may have come with it
			err := client.Err()
			if err == nil {
				awaitReadable(t, socket)
				_, err = client.Do("EVALSHA", "acquire")
			}
			testkit.Check(t, errors.Is(err, ErrStray), "%s, over %s: the next command: %v", what, network, err)
		}
	}
}

// A reply that comes in pieces is one.
func TestRepliesInPiecesAreNoStrays(t *testing.T) {
	for _, reply := range []string{"$9\r\n123456789\r\n", "*2\r\n$4\r\nheld\r\n*1\r\n:5\r\n", "+OK\r\n", "-ERR no\r\n", ":17\r\n", "*0\r\n", "$-1\r\n"} {
		for chunk := 1; chunk <= len(reply); chunk++ {
			c := RefuseStrays(&stream{data: reply + reply, chunk: chunk})
			client := redis.NewConn(c, 0, 0)
			testkit.Must(t, client.Send("INFO"))
			testkit.Must(t, client.Send("INFO"))
			testkit.Must(t, client.Flush())
			for range 2 {
				client.Receive()
				testkit.Check(t, client.Err() == nil, "%q, %d bytes at a time: %v", reply, chunk, client.Err())
			}
		}
	}
}

// A command may be written while the end of a text is under way.
func TestACommandBehindHalfAReplyIsWritten(t *testing.T) {
	_, socket, server := proxied(t, "tcp")
	c, read := RefuseStrays(socket), make([]byte, 100)
	for _, part := range []string{"+OK\r\n", "$6\r\n"} {
		testkit.Got(c.Write([]byte("*1\r\n$4\r\nINFO\r\n")))(t)
		testkit.Got(server.Write([]byte(part)))(t)
		testkit.Got(c.Read(read))(t)
	}
	testkit.Got(server.Write([]byte("run_id\r\n")))(t)
	awaitReadable(t, socket)
	testkit.Got(c.Write([]byte("*1\r\n$4\r\nINFO\r\n")))(t)
}

// What comes before the first reply, and the messages of a subscription, were not asked for either.
func TestRepliesThatAreNoStrays(t *testing.T) {
	client, socket, server := proxied(t, "tcp")
	testkit.Got(server.Write([]byte("-ERR max number of clients reached\r\n")))(t)
	awaitReadable(t, socket)
	_, err := client.Do("PING")
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "max number of clients"), "%v", err)

	client, _, server = proxied(t, "tcp")
	testkit.Got(server.Write([]byte("+OK\r\n")))(t)
	testkit.Got(client.Do("AUTH", "secret"))(t)
	server.Close()
	_, err = client.Do("PING")
	testkit.Check(t, err != nil && !errors.Is(err, ErrStray), "of a server that has hung up: %v", err)

	client, socket, server = proxied(t, "tcp")
	testkit.Got(server.Write([]byte("+OK\r\n")))(t)
	testkit.Got(client.Do("AUTH", "secret"))(t)
	sub := redis.PubSubConn{Conn: client}
	testkit.Must(t, sub.Subscribe("a"))
	message := "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n"
	testkit.Got(server.Write([]byte("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")))(t)
	sub.Receive()
	for _, channel := range []string{"b", "c"} { // the first time there are as many replies as commands
		testkit.Got(server.Write([]byte(message + message)))(t)
		awaitReadable(t, socket)
		testkit.Must(t, sub.Subscribe(channel))
		m, ok := sub.Receive().(redis.Message)
		testkit.Check(t, ok && m.Channel == "a", "no message: %v", client.Err())
		sub.Receive()
	}
}

// A command that is written in pieces, and with small letters, is the same.
func TestASubscriptionIsKnownInPieces(t *testing.T) {
	const command, messages = "*2\r\n$10\r\npsubscribe\r\n$1\r\na\r\n", ":1\r\n:2\r\n"
	for chunk := 1; chunk <= len(command); chunk++ {
		c := RefuseStrays(&stream{data: messages, chunk: len(messages)})
		for piece := range slices.Chunk([]byte(command), chunk) {
			testkit.Got(c.Write(piece))(t)
		}
		_, err := c.Read(make([]byte, 100))
		testkit.Check(t, err == nil, "%d bytes at a time: %v", chunk, err)
	}
}

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

// To cancel closes what is dialed, until the connection is kept. At the deadline the read says that it is over.
func TestCancellingClosesWhatIsDialed(t *testing.T) {
	for what, closes := range map[string]bool{"cancelled": true, "kept, then cancelled": false, "late": false} {
		testkit.Bubble(t, what, func(t *testing.T) {
			wanted, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ctx, keep := Interruptible(wanted)
			defer keep()
			ours, theirs := net.Pipe()
			defer theirs.Close()
			defer ours.Close()
			Dialed(ctx, ours)
			switch what {
			case "late":
				testkit.Pass(2 * time.Second)
			case "kept, then cancelled":
				keep()
				fallthrough
			default:
				cancel()
			}
			synctest.Wait()
			testkit.Equal(t, ours.SetDeadline(time.Time{}) != nil, closes, "closed")
		})
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
	ended := &deadlineCount{}
	DeferDeadlines(ended).Read(make([]byte, 1))
	testkit.Equal(t, ended.reads, 1, "reads of what has ended")
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

// noDeadlines is a connection whose reads and writes cannot be bounded.
type noDeadlines struct{ stream }

func (noDeadlines) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (noDeadlines) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

func TestAConnectionWithoutDeadlines(t *testing.T) {
	c := DeferDeadlines(&noDeadlines{stream{data: ":1\r\n", chunk: 1}})
	_, err := c.Read(make([]byte, 1))
	testkit.Is(t, err, errors.ErrUnsupported, "a read")
	_, err = c.Write([]byte("x"))
	testkit.Is(t, err, errors.ErrUnsupported, "a write")
}

type hungUp struct{ stream }

func (hungUp) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A read says what a server has said before it hung up.
func TestAWriteToAServerThatHasHungUp(t *testing.T) {
	testkit.Got(DeferDeadlines(&hungUp{}).Write([]byte("x")))(t)
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
