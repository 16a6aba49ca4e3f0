package node_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// closes closes the node twice. It wants Close to return in time, and calls to be refused
// afterwards.
func closes(t *testing.T, n *node.Node, atMost time.Duration) {
	t.Helper()
	began := stopwatch(t)
	testkit.Must(t, n.Close())
	took(t, "Close", began, 0, atMost)
	began = stopwatch(t)
	testkit.Must(t, n.Close())
	took(t, "Close, once more", began, 0, 0)
	footprint := new(pipeline.Footprint)
	mustFail(t, n, await(t, start(n, "key", acquire("k", "o:1"), footprint)).Err, node.ErrClosed)
	mustFail(t, n, await(t, start(n, "key", release("k", "o:1"), footprint)).Err, node.ErrClosed)
	_, err := operator.Check(t.Context(), n)
	mustFail(t, n, err, node.ErrClosed)
	mustFail(t, n, operator.Admit(t.Context(), n), node.ErrClosed)
	_, err = identify(t.Context(), n)
	mustFail(t, n, err, node.ErrClosed)
}

func TestCloseOfAnIdleNode(t *testing.T) {
	m := startReal(t)
	closes(t, open(t, m.URL(), node.WithConns(4)), 0)
	used := open(t, m.URL(), node.WithConns(4))
	mark(t, used)
	for i := range 16 {
		key := fmt.Sprint(i)
		mustGrant(t, await(t, start(used, key, acquire(key, "o:1"), nil)))
	}
	closes(t, used, 0)
	testkit.Eventually(t, "the connections closed", func() bool { return clients(t, m) == 0 })
}

// Calls that were accepted before Close are carried out.
func TestCloseCarriesOutAcceptedCalls(t *testing.T) {
	m := startReal(t)
	mark(t, open(t, m.URL()))
	n := open(t, m.URL(), node.WithConns(2))
	for round := range 2 { // in the first, calls are accepted before there is a connection
		if round == 1 {
			n = open(t, m.URL())
			mustGrant(t, do(t, n, acquire("first", "o:1")))
		}
		var answers []answer
		for i := range 500 {
			key := fmt.Sprintf("k%d.%d", round, i)
			answers = append(answers, start(n, key, acquire(key, "o:1"), nil))
		}
		closes(t, n, timeout)
		for _, a := range answers {
			mustGrant(t, await(t, a))
		}
	}
}

func TestCloseDuringNewCalls(t *testing.T) {
	m, n := openReal(t)
	mark(t, n)
	var running sync.WaitGroup
	for i := range 32 {
		running.Go(func() {
			for round := 0; ; round++ {
				r := <-start(n, "key", acquire(fmt.Sprintf("k%d.%d", i, round), "o:1"), nil)
				if r.Err != nil {
					testkit.Check(t, errors.Is(r.Err, node.ErrClosed) && errors.As(r.Err, new(*node.Error)),
						"the error is %v, want one that wraps ErrClosed", r.Err)
					return
				}
			}
		})
	}
	testkit.Eventually(t, "locks", func() bool { return len(keys(t, m)) > 100 })
	closes(t, n, timeout)
	running.Wait()
}

func TestCloseWhileFrozen(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	n, fresh := open(t, m.URL(), node.WithTimeout(timeout)), open(t, m.URL(), node.WithConns(8), node.WithTimeout(timeout))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	testkit.Must(t, m.Freeze())
	defer func() { testkit.Must(t, m.Thaw()) }()
	asked := start(n, "key", acquire("l", "o:2"), nil)
	var many []answer
	for i := range 64 {
		many = append(many, start(fresh, fmt.Sprint(i), acquire("m", "o:3"), nil))
	}
	closes(t, fresh, 2*timeout)
	closes(t, n, 2*timeout)
	testkit.Check(t, await(t, asked).Err != nil, "answered by a frozen master")
	for _, a := range many {
		testkit.Check(t, await(t, a).Err != nil, "answered by a frozen master")
	}
}

func TestCloseWhileDown(t *testing.T) {
	m, n := openReal(t, node.WithConns(3))
	testkit.Must(t, m.Kill())
	for i := range 10 {
		mustFail(t, n, await(t, start(n, fmt.Sprint(i), acquire("k", "o:1"), nil)).Err, node.ErrDown)
	}
	closes(t, n, timeout/2)
}

// Close ends an attempt to connect at once when no call waits for it: a dial, or the wait for what a server says then.
func TestCloseWhileProbing(t *testing.T) {
	var dials atomic.Int32
	hangs := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		dials.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	silent := node.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, theirs)
		return ours, nil
	})
	for what, open := range map[string]func(*testing.T) *node.Node{
		"a dial":   func(t *testing.T) *node.Node { return openPool(t, hangs, node.WithTimeout(time.Second)) },
		"a server": func(t *testing.T) *node.Node { return open(t, "redis://a", silent, node.WithTimeout(time.Second)) },
		"a sentinel": func(t *testing.T) *node.Node {
			return open(t, "redis+sentinel://a/m?failover=1", silent, node.WithTimeout(time.Second))
		},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			dials.Store(0)
			n := open(t)
			mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrTimeout)
			testkit.Eventually(t, "another attempt", func() bool { return dials.Load() >= 2 })
			closes(t, n, 0)
		})
	}
}

// Close waits for hooks, and for lines of the log.
func TestCloseWaitsForHooks(t *testing.T) {
	for what, takes := range map[string]struct{ hook, line time.Duration }{
		"a slow hook": {timeout / 2, timeout / 4}, "a slow logger": {timeout / 4, timeout / 2},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			var ended atomic.Int32
			n := openPool(t, &redis.Pool{Dial: func() (redis.Conn, error) { return nil, io.EOF }}, node.WithTimeout(timeout),
				node.WithHooks(node.Hooks{StateChanged: func(node.StateEvent) { time.Sleep(takes.hook); ended.Add(1) }}),
				node.WithLogger(slog.New(enabling{slog.DiscardHandler, func() { time.Sleep(takes.line); ended.Add(1) }})))
			mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrDown)
			testkit.Pass(timeout / 8) // both have begun
			testkit.Must(t, n.Close())
			testkit.Equal(t, ended.Load(), 2, "hooks and lines that have ended")
		})
	}
}

// Close is no change of the state: the hook is told of none, neither while a node that is refused is probed, whatever comes
// of it, nor when the connection of a node that is up ends, and no call waits for another one.
func TestCloseIsNoChangeOfTheState(t *testing.T) {
	serves := func() (redis.Conn, error) {
		return testkit.Pipe(func(c net.Conn) {
			canned.Serve(c, func(args []string) string {
				reply, ok := greeting(args)
				if !ok && args[0] != "SELECT" {
					time.Sleep(timeout / 4) // Close has begun
					return canned.HangUp
				}
				return cmp.Or(reply, "+OK\r\n")
			})
		}), nil
	}
	for what, c := range map[string]struct {
		state string
		dial  func(ctx context.Context, i int32) (redis.Conn, error)
	}{
		"up": {inside.Up, func(context.Context, int32) (redis.Conn, error) { return serves() }},
		"a probe that ends": {inside.Refused, func(ctx context.Context, i int32) (redis.Conn, error) {
			if i == 1 {
				return nil, redis.Error("WRONGPASS no")
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"a probe that succeeds": {inside.Refused, func(_ context.Context, i int32) (redis.Conn, error) {
			switch i {
			case 1:
				return nil, redis.Error("WRONGPASS no")
			case 2:
				time.Sleep(3 * timeout)
			}
			return serves()
		}},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			var s seen
			var dials atomic.Int32
			pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) { return c.dial(ctx, dials.Add(1)) }}
			n := openPool(t, pool, node.WithTimeout(timeout), node.WithHooks(s.hooks()))
			do(t, n, scripts.Look())
			testkit.Pass(2 * timeout)
			footprint := new(pipeline.Footprint)
			footprint.Abandon()
			start(n, "key", acquire("k", "o:1"), footprint)
			testkit.Must(t, n.Close())
			testkit.Pass(timeout)
			states := s.all()
			testkit.Check(t, len(states) == 1 && states[0].State == c.state, "the states are %v", states)
		})
	}
}

// Close leaves the caller's pool open.
func TestCloseLeavesAPoolOpen(t *testing.T) {
	m := startReal(t)
	pool := poolOf(m.Addr())
	defer pool.Close()
	n := openPool(t, pool)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	closes(t, n, 0)
	conn := pool.Get()
	defer conn.Close()
	testkit.Got(conn.Do("PING"))(t)
}

// The end of its context ends Do. The call goes on, and says nothing of the node.
func TestAContextEndsOnlyTheWaiting(t *testing.T) {
	m, n := openReal(t)
	mustGrant(t, do(t, n, acquire("first", "o:1")))
	testkit.Must(t, m.Freeze())
	ctx := testkit.Within(t, 10*time.Millisecond)
	began := stopwatch(t)
	r := inside.Of(n).Pipe("key").Do(ctx, acquire("k", "o:1"))
	took(t, "Do", began, 0, timeout/2)
	err := n.LastError()
	testkit.Check(t, err == nil, "the node's last error is %v", err)
	testkit.Must(t, m.Thaw())
	mustFail(t, n, r.Err, context.DeadlineExceeded)
	testkit.Check(t, r.Sent, "not sent, says the answer: it may be carried out")
	testkit.Eventually(t, "the call carried out", func() bool { return exists(t, m, "k") })
}
