package pubsub_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/canned"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = 400 * time.Millisecond // of the subscriptions in these tests

// recorder is a Subscriber that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) record(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recorder) OnSubscribed()   { r.record("subscribed") }
func (r *recorder) OnMessage()      { r.record("message") }
func (r *recorder) OnUnsubscribed() { r.record("unsubscribed") }

// wants fails the test unless the recorder has exactly these calls.
func (r *recorder) wants(t *testing.T, name string, calls ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	testkit.Require(t, slices.Equal(r.calls, calls), "the calls of %s are %v, want %v", name, r.calls, calls)
}

// server is a server in a bubble.
type server struct{ *testkit.Server }

// inBubble runs a test of subscriptions to a server. serve serves each connection; nil does so as a
// correct master.
func inBubble(t *testing.T, serve func(net.Conn), test func(*testing.T, *subscriptions, *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, serve)
		test(t, newSubscriptions(t, srv.Pool, timeout), srv)
	})
}

// newServer returns a server that ends with the test.
func newServer(t testing.TB, serve func(net.Conn)) *server {
	if serve == nil {
		serve = fakeredis.New(time.Now, 1).Serve
	}
	return &server{testkit.NewServer(t, timeout, serve)}
}

// subscriptions are Subscriptions with the group of their goroutines.
type subscriptions struct {
	*pubsub.Subscriptions
	group sync.WaitGroup
	moves atomic.Int32 // of the pool's address, to another process each time
}

// newSubscriptions returns Subscriptions that are closed with the test.
func newSubscriptions(t testing.TB, pool *redis.Pool, timeout time.Duration) *subscriptions {
	s := new(subscriptions)
	s.Subscriptions = pubsub.New(func(ctx context.Context) (redis.Conn, string, error) {
		process := s.process()
		c, err := pool.GetContext(ctx)
		return c, process, err
	}, timeout, rand.NewPCG(1, 2), &s.group)
	s.move()
	t.Cleanup(s.closeAndWait)
	return s
}

func (s *subscriptions) process() string { return fmt.Sprint(s.moves.Load()) }

func (s *subscriptions) move() {
	s.moves.Add(1)
	s.Leave(s.process())
}

func (s *subscriptions) closeAndWait() {
	s.Close()
	s.group.Wait()
}

// do runs a command over a connection of its own.
func (srv *server) do(t *testing.T, command string, args ...any) any {
	t.Helper()
	c := srv.Connect()
	defer c.Close()
	reply := testkit.Got(c.Do(command, args...))(t)
	synctest.Wait()
	return reply
}

func (srv *server) wantDials(t *testing.T, want int) {
	t.Helper()
	testkit.Equal(t, srv.Dialled(), want, "connections")
}

// frozen accepts and never answers.
func frozen(c net.Conn) {
	defer c.Close()
	io.Copy(io.Discard, c)
}

// answering replies to each command with the result of handle.
func answering(handle func(args []string) string) func(net.Conn) {
	return func(c net.Conn) { canned.Serve(c, handle) }
}

// confirmation returns the reply of a server to a command of a subscriber.
func confirmation(args []string) string {
	if args[0] == "PING" {
		return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	}
	channel := strings.Join(args[1:], "") // the UNSUBSCRIBE that redigo sends at the end has none
	return "*3\r\n" + canned.Bulk(strings.ToLower(args[0])) + canned.Bulk(channel) + ":1\r\n"
}

func messageOf(channel string) string {
	return "*3\r\n" + canned.Bulk("message") + canned.Bulk(channel) + canned.Bulk("0")
}

// running counts the goroutines of subscriptions.
func running() int {
	stacks := make([]byte, 1<<20)
	text := string(stacks[:runtime.Stack(stacks, true)])
	return strings.Count(text, "pubsub.(*Subscriptions).run(") + strings.Count(text, "pubsub.(*Subscriptions).write(")
}

func wantNoneRunning(t *testing.T) {
	t.Helper()
	testkit.Equal(t, running(), 0, "goroutines that go on")
}

// endsWithin cancels the last subscription. All goroutines must end within d.
func endsWithin(t *testing.T, cancel func(), d time.Duration) {
	t.Helper()
	cancel()
	testkit.Pass(d)
	wantNoneRunning(t)
}
