package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

var errNoRoute = errors.New("no route through the tunnel")

func noRoute(context.Context, string, string) (net.Conn, error) { return nil, errNoRoute }

// tunnel leads all connections to one address, and keeps what they asked for.
func tunnel(to string, asked *[]string) node.Option {
	return node.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		*asked = append(*asked, network+" "+address)
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
		var asked []string
		n := open(t, url, tunnel(m.Addr(), &asked))
		mustGrant(t, do(t, n, acquire(url, "o:1")))
		if len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: asked for %q, want %q", url, asked, want)
		}
	}
}

// The node makes the TLS handshake over the dialer's connection, with the URL's host.
func TestADialerUnderTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "lock-a.internal")
	var asked []string
	trusting := node.WithTLS(&tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12})
	n := open(t, "rediss://lock-a.internal:7000", tunnel("127.0.0.1:"+s.port, &asked), trusting)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	other := open(t, "rediss://lock-b.internal:7000", tunnel("127.0.0.1:"+s.port, &asked), trusting)
	if err := do(t, other, acquire("k", "o:1")).Err; !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("another host: %v", err)
	}
}

func TestADialerThatFails(t *testing.T) {
	for what, c := range map[string]struct {
		dial   func(context.Context, string, string) (net.Conn, error)
		reason string
		target error
		takes  time.Duration
	}{
		"an error": {noRoute, "no route through the tunnel", errNoRoute, 0},
		"nothing":  {func(context.Context, string, string) (net.Conn, error) { return nil, nil }, "neither a connection nor", node.ErrDown, 0},
		"a panic":  {func(context.Context, string, string) (net.Conn, error) { panic("collapsed") }, "panic: collapsed", node.ErrDown, 0},
		"too late": {func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, "timed out",
			node.ErrTimeout, timeout},
		"never": {func(context.Context, string, string) (net.Conn, error) { time.Sleep(time.Hour); return nil, errNoRoute }, "timed out",
			node.ErrTimeout, timeout},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { testkit.Pass(time.Hour) }) // until the dial that hangs ends
				n := open(t, "redis://lock-a.internal", node.WithDialer(c.dial), node.WithTimeout(timeout))
				cannotConnect(t, n, c.reason, c.target, c.takes)
			})
		})
	}
}

// cannotConnect wants a call to fail for that reason after so long, not for good, and without a secret in its error.
func cannotConnect(t *testing.T, n *node.Node, reason string, target error, takes time.Duration) {
	t.Helper()
	began := stopwatch(t)
	err := do(t, n, acquire("k", "o:1")).Err
	took(t, "the call", began, takes, takes)
	mustFail(t, n, err, node.ErrDown)
	mustFail(t, n, err, target)
	var typed *node.Error
	if !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "s3cret") || errors.As(err, &typed) && typed.Permanent() {
		t.Errorf("the error is %v", err)
	}
}
