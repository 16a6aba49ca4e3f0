package node_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/trial/heard"
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
	n := open(t, m.URL(), slowed(t, m.Addr(), 150*time.Millisecond), node.WithTimeout(500*time.Millisecond))
	testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
	reply, unheard, err := heard.Lock(t.Context(), n, scripts.NewList(n.Name()), scripts.TrialName("way"))
	testkit.Check(t, err == nil && unheard == nil && reply.Outcome == scripts.Granted,
		"%+v (%v, %v), want granted", reply, unheard, err)
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
