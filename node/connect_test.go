package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/trial/heard"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// slowed leads to a server with round trips of that delay, of which the first connects.
func slowed(t *testing.T, server string, delay time.Duration) node.Option {
	t.Helper()
	f := testkit.Got(forward.New(server))(t)
	t.Cleanup(f.Close)
	f.DelayRequests(delay, 0)
	return node.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		select {
		case <-time.After(delay):
			return new(net.Dialer).DialContext(ctx, network, f.Addr())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// Round trips of 300 ms and the timeout that operations.md has for them: the first call connects, with
// TLS, user and database.
func TestASlowWayToTheMaster(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "localhost")
	testkit.Do(t, s.Master, redistest.SetUser("app", "on", ">secret", "~*", "&*", "+@all")...)
	n := open(t, "rediss://app:secret@localhost:"+s.port+"/3", slowed(t, "127.0.0.1:"+s.port, 300*time.Millisecond), node.WithTimeout(2*time.Second),
		node.WithTLS(&tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}))
	testkit.Eventually(t, "granted", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
	check(t, n)
}

// Connecting takes longer than a call waits for it, and each reply comes in time: a trial waits for the connection.
func TestATrialOnASlowWay(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	n := open(t, m.URL(), slowed(t, m.Addr(), 300*time.Millisecond), node.WithTimeout(time.Second))
	testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
	reply, unheard, err := heard.Lock(t.Context(), n, scripts.NewList(n.Name()), scripts.TrialName("way"))
	testkit.Check(t, err == nil && unheard == nil && reply.Outcome == scripts.Granted,
		"%+v (%v, %v), want granted", reply, unheard, err)
}

// A name service that does not answer: the error says so, not that the node is slow.
func TestANameThatIsNotFoundInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, "redis://a.example", node.WithTimeout(time.Second), node.WithDialer(
			func(ctx context.Context, network, _ string) (net.Conn, error) {
				<-ctx.Done()
				time.Sleep(time.Millisecond) // a resolver ends no sooner
				failed := &net.DNSError{UnwrapErr: ctx.Err(), Err: "i/o timeout", Name: "a.example", IsTimeout: true}
				return nil, &net.OpError{Op: "dial", Net: network, Err: failed}
			}))
		do(t, n, acquire("k", "o:1"))
		time.Sleep(time.Minute)
		_, checkErr := operator.Check(t.Context(), n)
		for _, err := range []error{do(t, n, acquire("k", "o:1")).Err, checkErr} {
			testkit.Check(t, errors.Is(err, node.ErrTimeout) &&
				strings.Contains(err.Error(), "timed out after 5s: lookup a.example: i/o timeout"), "the error is %v", err)
		}
	})
}

// The first of a host's addresses is dead: a net.Dialer goes on to the next after a part of the time.
func TestAHostWhoseFirstAddressIsDead(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	n := open(t, m.URL(), node.WithTimeout(timeout), node.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) < 2*time.Second { // of which a net.Dialer takes 2 s for the first
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
}

// A server that says why it hangs up is quoted.
func TestTheServersReasonForHangingUp(t *testing.T) {
	t.Parallel()
	m := startReal(t, "--maxclients", "1")
	testkit.Opened(redis.Dial("tcp", m.Addr()))(t)
	n := open(t, m.URL())
	failsBy(t, n, "max number of clients")

	_, denied := openFake(t, func([]string) string { return "-DENIED Redis is running in protected mode\r\n" + canned.HangUp })
	isPermanent(t, failsBy(t, denied, "DENIED"))
}

// failsBy wants a call to fail because the node is down, with an error that says so.
func failsBy(t *testing.T, n *node.Node, says string) error {
	t.Helper()
	err := do(t, n, acquire("k", "o:1")).Err
	mustFail(t, n, err, node.ErrDown)
	testkit.Check(t, strings.Contains(err.Error(), says), "%v", err)
	return err
}

func TestAServerThatRequiresACertificateSaysSo(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "localhost", "--tls-auth-clients", "yes")
	n := open(t, "rediss://localhost:"+s.port, node.WithTLS(&tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS13}))
	failsBy(t, n, "certificate required")
}

// A firewall forgets idle connections, and drops what comes over them: a request is resent over a new
// connection. It may have been carried out, so that counts as resent.
func TestAnIdleConnectionThatTheNetworkForgot(t *testing.T) {
	t.Parallel()
	m := startReal(t)
	f := testkit.Got(forward.New(m.Addr()))(t)
	defer f.Close()
	var lost atomic.Bool
	n := open(t, "redis://"+f.Addr(), node.WithTimeout(timeout), node.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			if lost.Load() { // the flows that exist stay lost
				address = m.Addr()
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	idle := time.Now()
	testkit.Eventually(t, "idle", func() bool { return time.Since(idle) > timeout*3/2 })
	f.Lose()
	lost.Store(true)
	r := do(t, n, release("k", "o:1"))
	testkit.Must(t, r.Err)
	testkit.Check(t, r.Resent && r.Reply.Release.Found == 1, "%+v", r)
}

// What hangs up at the first commands may be a proxy, or another server: the error says so.
func TestAServerThatHangsUpAtTheFirstCommands(t *testing.T) {
	_, n := openFake(t, func([]string) string { return canned.HangUp })
	failsBy(t, n, "hung up at the first commands")
}

func TestAWebServerAtThePort(t *testing.T) {
	_, n := openFake(t, func([]string) string {
		return "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request" + canned.HangUp
	})
	failsBy(t, n, "no Redis server?")
}

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
	bounded := poolOf(m.Addr())
	bounded.MaxActive, bounded.MaxIdle = 20, 3
	defer bounded.Close()
	of := openPool(t, bounded, node.WithName(nodeName))
	testkit.Must(t, do(t, of, scripts.Look()).Err)
	inUse := func() int { is := bounded.Stats(); return is.ActiveCount - is.IdleCount }
	before := inUse()
	check(t, of)
	testkit.Equal(t, inUse(), before, "connections in use after a check")
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
