package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

func TestAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "socket") // the path of t.TempDir is too long for a socket
	testkit.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "redis.sock")
	m := startReal(t, "--unixsocket", path)
	testkit.Equal(t, open(t, "unix://"+path, node.WithName("")).Name(), path, "named")
	n := open(t, "unix://"+path)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	inThird := open(t, "unix://"+path+"?db=3")
	mustGrant(t, do(t, inThird, acquire("k", "o:2")))
	testkit.Check(t, exists(t, m, "k"), "the key is not on that server")
}

// tlsServer is a redis-server with a port for TLS.
type tlsServer struct {
	*redistest.Master
	port  string
	roots *x509.CertPool
}

// startTLS starts a server with a certificate for that host, or skips the test. Clients need none,
// unless args ask for one.
func startTLS(t *testing.T, host string, args ...string) tlsServer {
	t.Helper()
	m, _, port, roots := testkit.TLS(t, host, append([]string{"--tls-auth-clients", "no"}, args...)...)
	return tlsServer{m, port, roots}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "localhost")
	port, roots := s.port, s.roots

	trusting := func(roots *x509.CertPool, name string) node.Option {
		return node.WithTLS(&tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12})
	}
	for _, scheme := range []string{"rediss", "valkeys"} {
		n := open(t, scheme+"://localhost:"+port, trusting(roots, ""))
		mustGrant(t, do(t, n, acquire(scheme, "o:1")))
		testkit.Equal(t, check(t, n).Role, "master", "the role that Check reports")
	}
	mustGrant(t, do(t, open(t, "rediss://127.0.0.1:"+port, trusting(roots, "localhost")), acquire("named", "o:1")))

	mustGrant(t, do(t, open(t, "rediss://127.0.0.1:"+port+"?server-name=localhost", trusting(roots, "")), acquire("by the URL", "o:1")))

	for what, n := range map[string]*node.Node{
		"not trusted":       open(t, "rediss://localhost:"+port, node.WithTimeout(timeout)),
		"another name":      open(t, "rediss://localhost:"+port, trusting(roots, "example.org"), node.WithTimeout(timeout)),
		"the address":       open(t, "rediss://127.0.0.1:"+port, trusting(roots, ""), node.WithTimeout(timeout)),
		"TLS without TLS":   open(t, strings.Replace(s.URL(), "redis:", "rediss:", 1), trusting(roots, "localhost"), node.WithTimeout(timeout)),
		"no TLS where it's": open(t, "redis://localhost:"+port, node.WithTimeout(timeout)),
	} {
		r := do(t, n, acquire("k", "o:1"))
		testkit.Check(t, errors.Is(r.Err, node.ErrDown) && !r.Sent, "%s: %v %v", what, r.Reply, r.Err)
	}

	// The handshake with a silent server ends at the timeout.
	dumb := testkit.Opened(net.Listen("tcp", "127.0.0.1:0"))(t)
	n := open(t, "rediss://"+dumb.Addr().String(), node.WithTimeout(timeout))
	began := stopwatch(t)
	mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrTimeout)
	took(t, "the handshake", began, timeout, timeout)
}

var errNoRoute = errors.New("no route through the tunnel")

func noRoute(context.Context, string, string) (net.Conn, error) { return nil, errNoRoute }

// tunnel leads all connections to one address. All ask for the wanted one.
func tunnel(t *testing.T, to, wanted string) node.Option {
	return node.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		testkit.Equal(t, network+" "+address, wanted, "what is dialed")
		return new(net.Dialer).DialContext(ctx, "tcp", to)
	})
}

func TestADialer(t *testing.T) {
	m := startReal(t)
	for url, want := range map[string]string{
		"redis://lock-a.internal:7000": "tcp lock-a.internal:7000",
		"redis://lock-a.internal/2":    "tcp lock-a.internal:6379",
		"unix:///run/redis.sock":       "unix /run/redis.sock",
	} {
		mustGrant(t, do(t, open(t, url, tunnel(t, m.Addr(), want)), acquire(url, "o:1")))
	}
}

// The node makes the TLS handshake over the dialer's connection, with the URL's host.
func TestADialerUnderTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "lock-a.internal")
	trusting := node.WithTLS(&tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12})
	n := open(t, "rediss://lock-a.internal:7000", tunnel(t, "127.0.0.1:"+s.port, "tcp lock-a.internal:7000"), trusting)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	other := open(t, "rediss://lock-b.internal:7000", tunnel(t, "127.0.0.1:"+s.port, "tcp lock-b.internal:7000"), trusting)
	err := do(t, other, acquire("k", "o:1")).Err
	testkit.Check(t, errors.As(err, new(*tls.CertificateVerificationError)), "another host: %v", err)
}

// A dialer, or who is asked for credentials, that fails, panics, ends its goroutine or hangs: the call fails for that
// reason in time, not for good, and without a secret in its error.
func TestAConnectionThatCannotBeMade(t *testing.T) {
	sealed := errors.New("the vault is sealed")
	asking := func(ask func(context.Context) (user, password string, err error)) []node.Option {
		var connections atomic.Int32
		return []node.Option{node.WithCredentials(ask), node.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			testkit.Check(t, connections.Add(1) <= 5, "more than 5 connections without credentials")
			ours, theirs := net.Pipe()
			go fakeredis.New(time.Now, 1).Serve(theirs)
			return ours, nil
		})}
	}
	dialing := func(dial func(context.Context, string, string) (net.Conn, error)) []node.Option {
		return []node.Option{node.WithDialer(dial)}
	}
	for what, c := range map[string]struct {
		opts   []node.Option
		reason string
		target error
		takes  time.Duration
	}{
		"no route": {dialing(noRoute), "no route through the tunnel", errNoRoute, 0},
		"nothing is dialed": {dialing(func(context.Context, string, string) (net.Conn, error) { return nil, nil }),
			"neither a connection nor", node.ErrDown, 0},
		"a panic of the dialer": {dialing(func(context.Context, string, string) (net.Conn, error) { panic("collapsed") }),
			"panic: collapsed", node.ErrDown, 0},
		"a dialer that ends its goroutine": {dialing(func(context.Context, string, string) (net.Conn, error) { runtime.Goexit(); return nil, nil }),
			"ended its goroutine", node.ErrDown, 0},
		"dialed too late": {dialing(func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }),
			"timed out", node.ErrTimeout, timeout},
		"dialed for ever": {dialing(func(context.Context, string, string) (net.Conn, error) { time.Sleep(time.Hour); return nil, errNoRoute }),
			"timed out", node.ErrTimeout, timeout},
		"no credentials": {asking(func(context.Context) (string, string, error) { return "app", "s3cret", sealed }),
			"the vault is sealed", sealed, 0},
		"a panic of who is asked": {asking(func(context.Context) (string, string, error) { panic("sealed") }),
			"panic: sealed", node.ErrDown, 0},
		"who is asked ends the goroutine": {asking(func(context.Context) (string, string, error) { runtime.Goexit(); return "", "", nil }),
			"ended its goroutine", node.ErrDown, 0},
		"credentials too late": {asking(func(ctx context.Context) (string, string, error) { <-ctx.Done(); return "", "s3cret", ctx.Err() }),
			"timed out", node.ErrTimeout, timeout},
		"no credentials ever": {asking(func(context.Context) (string, string, error) { time.Sleep(time.Hour); return "", "", sealed }),
			"timed out", node.ErrTimeout, timeout},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			t.Cleanup(func() { testkit.Pass(time.Hour) }) // until what hangs ends
			n := open(t, "redis://lock-a.internal", append(c.opts, node.WithTimeout(timeout))...)
			began := stopwatch(t)
			err := do(t, n, acquire("k", "o:1")).Err
			took(t, "the call", began, c.takes, c.takes)
			mustFail(t, n, err, node.ErrDown)
			mustFail(t, n, err, c.target)
			testkit.Check(t, strings.Contains(err.Error(), c.reason) && !strings.Contains(err.Error(), "s3cret") && isTransient(err),
				"the error is %v", err)
		})
	}
}

// A pool whose Dial returns no connection, and no error: the calls say so, and nothing panics.
func TestAPoolThatDialsNothing(t *testing.T) {
	for what, nothing := range map[string]redis.Conn{"nil": nil, "a nil pointer": (*struct{ redis.Conn })(nil)} {
		for _, most := range []int{0, 20} {
			testkit.Bubble(t, fmt.Sprintf("%s, at most %d", what, most), func(t *testing.T) {
				pool := &redis.Pool{MaxActive: most, Dial: func() (redis.Conn, error) { return nothing, nil }}
				defer pool.Close()
				n := openPool(t, pool, node.WithName("a"), node.WithTimeout(timeout))
				err := do(t, n, acquire("k", "o:1")).Err
				mustFail(t, n, err, node.ErrDown)
				testkit.Check(t, strings.Contains(err.Error(), "nil pointer"), "the error is %v", err)
			})
		}
	}
}

// CLIENT LIST shows whose the connections are. Those of a pool of the user's keep their name.
func TestConnectionsHaveAName(t *testing.T) {
	m := startReal(t)
	pool := poolOf(m.Addr())
	defer pool.Close()
	own := openPool(t, pool)
	check(t, own)
	mustGrant(t, do(t, own, acquire("k", "o:1")))
	list := testkit.Got(redis.String(m.Do("CLIENT", "LIST", "TYPE", "NORMAL")))(t)
	testkit.Equal(t, strings.Count(list, " name=quorumlock "), 0, "connections of the user's own pool that have the name")
}

// So do the connections of Check and Admit, and those on which releases are heard.
func TestAllConnectionsHaveAName(t *testing.T) {
	t.Parallel()
	wantName(t, "quorumlock")
	wantName(t, "billing/lock~7", node.WithClientName("billing/lock~7"))
}

// wantName fails the test unless all connections of a node with these options have that name.
func wantName(t *testing.T, name string, opts ...node.Option) {
	t.Helper()
	m, n := openReal(t, opts...)
	check(t, n)
	testkit.Must(t, operator.Admit(t.Context(), n))
	mark(t, n)
	subscribed := make(chan struct{})
	defer inside.Of(n).Subscriptions.Subscribe("redisson_lock__channel:{k}", subscriber{confirmed: subscribed})()
	<-subscribed
	list := testkit.Got(redis.String(m.Do("CLIENT", "LIST")))(t)
	for client := range strings.Lines(list) {
		testkit.Check(t, strings.Contains(client, " name="+name+" ") || strings.Contains(client, " cmd=client"),
			"a connection has no name: %s", client)
	}
	testkit.Check(t, strings.Contains(list, " sub=1 "), "no connection is subscribed: %s", list)
}

// CLIENT SETNAME refuses such a name, and the connections would have none.
func TestClientNamesThatAreRefused(t *testing.T) {
	for _, name := range []string{"", "a b", "a\n", "\x7f", "é", strings.Repeat("a", 256)} {
		n, err := node.Open("redis://a", node.WithClientName(name))
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil, "%q: %v", name, err)
	}
}

// A user that may not name connections locks as well.
func TestNameMayBeForbidden(t *testing.T) {
	m := startReal(t)
	mark(t, open(t, m.URL()))
	testkit.Do(t, m, redistest.SetUser("app", "on", ">secret", "~*", "&*", "+@all", "-client")...)
	n := open(t, strings.Replace(m.URL(), "://", "://app:secret@", 1))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
}
