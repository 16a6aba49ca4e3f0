package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// interrupted runs hook before each command that waits for a reply.
type interrupted struct {
	redis.Conn
	hook func(command string)
}

func (c interrupted) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	c.hook(command)
	return redis.DoContext(c.Conn, ctx, command, args...)
}

func (c interrupted) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}

func start(t *testing.T) (*redistest.Master, redis.Conn) {
	t.Helper()
	server := testkit.Real(t, 1).Masters[0]
	conn := testkit.Got(redis.Dial("tcp", server.Addr()))(t)
	t.Cleanup(func() { conn.Close() })
	return server, conn
}

func exists(t *testing.T, server *redistest.Master, key string) bool {
	t.Helper()
	return testkit.Do(t, server, "EXISTS", key) == int64(1)
}

func set(key string, value any) fence.Command {
	return fence.Command{Name: "SET", Args: []any{key, value}}
}

// A stamp between the comparison and the step stops the step: of a greater token for good, of a
// lower one until the comparison is made again.
func TestStampKeyInterrupted(t *testing.T) {
	for _, other := range []uint64{43, 41} {
		server, conn := start(t)
		attempts := 0
		hooked := interrupted{conn, func(command string) {
			if command == "EXEC" {
				if attempts++; attempts == 1 {
					testkit.Do(t, server, "SET", "token", other)
				}
			}
		}}
		_, err := fence.StampKey(t.Context(), hooked, "token", 42, set("value", "mine"))
		written := exists(t, server, "value")
		fenced := errors.Is(err, fence.ErrFenced)
		testkit.Check(t, fenced == (other > 42) && written != fenced, "after token %d: %v, written %v", other, err, written)
		testkit.Check(t, other >= 42 || attempts == 2, "after token %d: %d attempts, want 2", other, attempts)
	}
}

// Two flows of one holder do not send each other around again.
func TestStampKeyOfEqualTokens(t *testing.T) {
	server, conn := start(t)
	other := testkit.Got(redis.Dial("tcp", server.Addr()))(t)
	defer other.Close()
	testkit.Got(fence.StampKey(t.Context(), conn, "token", 42))(t)
	attempts := 0
	hooked := interrupted{conn, func(command string) {
		if command == "EXEC" && attempts < 3 { // an end, should each send the other around
			attempts++
			_, err := fence.StampKey(t.Context(), other, "token", 42, set("other", 1))
			testkit.Is(t, err, nil, "the other stamp")
		}
	}}
	_, err := fence.StampKey(t.Context(), hooked, "token", 42, set("value", 1))
	testkit.Check(t, err == nil && attempts == 1, "%d attempts, error %v", attempts, err)
}

// A refusal leaves no watch on the connection: it would end a later step of the application.
func TestStampKeyLeavesNoWatch(t *testing.T) {
	server, conn := start(t)
	for _, value := range []string{"99", "no token"} {
		testkit.Do(t, server, "SET", "token", value)
		_, err := fence.StampKey(t.Context(), conn, "token", 42)
		testkit.Require(t, err != nil, "the key holds %q, and no error", value)
		testkit.Do(t, server, "SET", "token", "100")
		for _, command := range []fence.Command{{Name: "MULTI"}, set("value", 1)} {
			testkit.Must(t, conn.Send(command.Name, command.Args...))
		}
		reply, err := conn.Do("EXEC")
		testkit.Check(t, reply != nil && err == nil, "after %q a later step ended with %v, %v", value, reply, err)
	}
}

func TestStampKeyErrors(t *testing.T) {
	server, conn := start(t)
	testkit.Do(t, server, "SET", "text", "no token")
	testkit.Do(t, server, "LPUSH", "list", "1")
	testkit.Do(t, server, "HSET", "hash", "token", "1")
	for _, c := range []struct {
		key, want string
		token     uint64
	}{
		{"", "empty", 1},
		{"token", "token 0", 0},
		{"token", "9007199254740992", 1 << 53},
		{"text", `"no token"`, 1},
		{"list", "WRONGTYPE", 1},
		{"hash", "WRONGTYPE", 1},
	} {
		_, err := fence.StampKey(t.Context(), conn, c.key, c.token, set("value", 1))
		testkit.Check(t, err != nil && strings.Contains(err.Error(), c.want) && strings.HasPrefix(err.Error(), "fence: ") &&
			errors.Is(err, fence.ErrInvalid), "key %q, token %d: %v", c.key, c.token, err)
	}

	// A command that fails does not undo the others.
	replies, err := fence.StampKey(t.Context(), conn, "token", 42,
		set("value", 1), fence.Command{Name: "GET", Args: []any{"list"}}, set("last", 1))
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "GET: WRONGTYPE") && len(replies) == 3 &&
		exists(t, server, "last"), "a command of the wrong type: %v, %v", replies, err)
	// One that the server cannot queue stops them all.
	_, err = fence.StampKey(t.Context(), conn, "token", 43, set("none", 1), fence.Command{Name: "GET"})
	seen := testkit.Do(t, server, "GET", "token")
	testkit.Check(t, err != nil && !exists(t, server, "none") && fmt.Sprintf("%s", seen) == "42",
		"a command without arguments: %v, token %q", err, seen)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Is(t, testkit.ErrorOf(fence.StampKey(ctx, conn, "token", 44)), context.Canceled, "with a context that has ended")
}

// slowToEnd is a connection whose server does not answer. A write goes on for a second after Close.
type slowToEnd struct {
	net.Conn
	writing atomic.Int32
}

func (c *slowToEnd) Write(p []byte) (int, error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	n, err := c.Conn.Write(p)
	time.Sleep(time.Second) // the bubble's time
	return n, err
}

// When the context has ended and StampKey returns, the connection is its caller's again.
func TestStampKeyLeavesNoUserOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, server := net.Pipe() // the server reads nothing
		defer server.Close()
		slow := &slowToEnd{Conn: ours}
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.NewConn(slow, 0, 0), nil }}
		defer pool.Close()
		conn := pool.Get()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		testkit.Is(t, testkit.ErrorOf(fence.StampKey(ctx, conn, "token", 42)), context.Canceled, "with a context that ended")
		testkit.Equal(t, slow.writing.Load(), 0, "goroutines that still write")
		testkit.Check(t, conn.Err() != nil, "the connection is alive")
		conn.Close()
	})
}

// odd is a connection to a server, or through a proxy, that answers EXEC with these replies.
type odd struct {
	redis.Conn
	replies []any
	get     error
}

func (odd) Send(string, ...any) error                   { return nil }
func (odd) ReceiveContext(context.Context) (any, error) { return nil, errors.New("killed") }
func (o odd) DoContext(_ context.Context, command string, _ ...any) (any, error) {
	switch command {
	case "EXEC":
		return o.replies, nil
	case "GET":
		return nil, o.get
	}
	return "OK", nil
}

// An EXEC whose replies are not those to the commands is an error, not a panic.
func TestStampKeyOfOddReplies(t *testing.T) {
	for _, replies := range [][]any{{}, {"OK"}, {"OK", "OK", redis.Error("ERR odd")}} {
		_, err := fence.StampKey(t.Context(), odd{replies: replies}, "fence", 41, set("balance", 1))
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "EXEC"), "%v: %v", replies, err)
	}
}

// An error of the server that says nothing of the key is not the caller's.
func TestStampKeyThatMayNotBeRead(t *testing.T) {
	_, err := fence.StampKey(t.Context(), odd{get: redis.Error("NOPERM no GET")}, "fence", 41)
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "NOPERM no GET") && !errors.Is(err, fence.ErrInvalid), "%v", err)
}

func TestError(t *testing.T) {
	err := fmt.Errorf("pay: %w", &fence.Error{Resource: "account:42", Token: 41, Seen: 42})
	const want = "pay: fence: account:42: fenced: token 41 is below 42, the greatest seen"
	testkit.Check(t, err.Error() == want && errors.Is(err, fence.ErrFenced),
		"%q wraps ErrFenced %v, want %q", err, errors.Is(err, fence.ErrFenced), want)
}
