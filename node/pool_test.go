package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

func poolOf(address string) *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", address, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second))
	}}
}

func TestACallersPool(t *testing.T) {
	m := startReal(t)
	pool := poolOf(m.Addr())
	defer pool.Close()
	n := openPool(t, pool, node.WithName(""))
	testkit.Check(t, n.Name() == inside.Unnamed && !inside.Of(n).Named, "named %q before it was reached", n.Name())
	testkit.Must(t, do(t, n, scripts.Look()).Err)
	name := m.Addr()
	if !redistest.Has(redistest.ClientInfo) {
		name = inside.Unnamed // such a server does not tell its address
	}
	testkit.Check(t, n.Name() == name && !inside.Of(n).Named, "named %q, want %q", n.Name(), name)
	named := openPool(t, pool, node.WithName(nodeName))
	testkit.Check(t, named.Name() == nodeName && inside.Of(named).Named, "named %q, want %s", named.Name(), nodeName)
	mustGrant(t, do(t, named, acquire("k", "o:1")))
}

// A caller's pool may have no timeouts: the node's own hold. The calls exceed the buffer of the frozen server's
// socket: the writer must not hang in it.
func TestAFullSocket(t *testing.T) {
	m := startReal(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	defer pool.Close()
	n := openPool(t, pool, node.WithTimeout(timeout))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	testkit.Must(t, m.Freeze())
	defer func() { testkit.Must(t, m.Thaw()) }()
	long := strings.Repeat("x", 1<<20)
	began := stopwatch(t)
	var answers []answer
	for range 16 {
		answers = append(answers, start(n, "key", acquire(long, "o:1"), nil))
	}
	for _, a := range answers {
		err := await(t, a).Err
		testkit.Check(t, errors.Is(err, node.ErrTimeout) || errors.Is(err, node.ErrDown), "answered %v", err)
	}
	took(t, "the calls", began, timeout, timeout)
	mustFail(t, n, do(t, n, acquire("l", "o:1")).Err, node.ErrDown)
	closes(t, n, 2*timeout)
}

// A dial that hangs delays calls, Check and Close for no longer than they may take. The node is up when it succeeds.
func TestADialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, p := make(chan struct{}), world.New(t, 1).NewProcess()
		pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			<-free
			c, err := p.Dial(ctx, 0)
			return redis.NewConn(c, bound, bound), err
		}}
		defer pool.Close()
		n, closing := openPool(t, pool, node.WithTimeout(timeout)), openPool(t, pool, node.WithTimeout(timeout))
		began := stopwatch(t)
		var answers []answer
		for i := range 10 {
			answers = append(answers, start(n, "key", acquire(fmt.Sprint(i), "o:1"), nil))
		}
		for _, a := range answers {
			r := await(t, a)
			mustFail(t, n, r.Err, node.ErrDown)
			mustFail(t, n, r.Err, node.ErrTimeout)
		}
		took(t, "the calls", began, timeout, timeout)
		began = stopwatch(t)
		mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrDown)
		took(t, "a later call", began, 0, timeout/2)
		began = stopwatch(t)
		_, err := operator.Check(t.Context(), n)
		mustFail(t, n, err, node.ErrTimeout)
		took(t, "Check", began, redisconn.ConnectTimeout(timeout), redisconn.ConnectTimeout(timeout))

		asked := start(closing, "key", acquire("k", "o:1"), nil)
		closes(t, closing, 2*timeout)
		testkit.Check(t, await(t, asked).Err != nil, "answered by no server")

		close(free)
		testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
	})
}

// An exhausted pool costs the node's timeout, and no more.
func TestAnExhaustedPool(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	pool := poolOf(m.Addr())
	t.Cleanup(func() { pool.Close() }) // after the node: a pool at which a caller waits is closed with a data race of redigo's
	pool.MaxActive, pool.Wait = 1, true
	taken := pool.Get()
	defer taken.Close()
	n := openPool(t, pool, node.WithTimeout(timeout))
	began := stopwatch(t)
	mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrDown)
	took(t, "a call", began, timeout, timeout)
}
