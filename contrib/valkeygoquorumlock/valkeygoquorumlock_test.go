package valkeygoquorumlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/quorumlock/contrib/valkeygoquorumlock"
	"github.com/quorumlock/quorumlock/internal/clienttest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func option(s clienttest.Settings) valkey.ClientOption {
	o := valkey.ClientOption{
		InitAddress: []string{s.Addr}, TLSConfig: s.TLS, Username: s.User, Password: s.Password, SelectDB: s.DB,
		ClientName: s.Name, ConnWriteTimeout: s.Timeout,
	}
	if s.Ask != nil {
		o.AuthCredentialsFn = func(c valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			user, password, err := s.Ask(context.Background())
			if c.Address.String() != s.Addr {
				err = errors.New("asked for the credentials of " + c.Address.String())
			}
			return valkey.AuthCredentials{Username: user, Password: password}, err
		}
	}
	if s.Dial != nil {
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return s.Dial(ctx, "tcp", addr)
		}
	}
	return o
}

// withDialFn dials by the older function.
func withDialFn(s clienttest.Settings) valkey.ClientOption {
	o := option(s)
	o.DialCtxFn, o.ConnWriteTimeout, o.Dialer.Timeout, o.DialFn = nil, 0, s.Timeout, s.DialFn
	return o
}

// watched is of a master that Sentinel names.
func watched(s clienttest.Settings) valkey.ClientOption {
	o := option(s)
	o.AuthCredentialsFn = nil
	o.Sentinel = valkey.SentinelOption{MasterSet: "locks", Username: s.User, Password: s.Password, TLSConfig: s.TLS}
	return o
}

func TestSentinel(t *testing.T) {
	clienttest.Sentinel(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
		return valkeygoquorumlock.Open(watched(s), opts...)
	})
}

func TestConnections(t *testing.T) {
	for name, of := range map[string]func(clienttest.Settings) valkey.ClientOption{"DialCtxFn": option, "DialFn": withDialFn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clienttest.Run(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
				return valkeygoquorumlock.Open(of(s), opts...)
			})
		})
	}
}

// docs/clients.md says of each field what becomes of it, and that happens. A field that a new version of
// valkey-go brings fails this test until it is decided.
func TestEveryFieldIsDecided(t *testing.T) {
	all := clienttest.ReadDecisions(t, "rueidis and valkey-go")
	fresh := func() *valkey.ClientOption { return &valkey.ClientOption{InitAddress: []string{"10.0.0.1:6379"}} }
	open := func(o *valkey.ClientOption) (*node.Node, error) { return valkeygoquorumlock.Open(*o) }
	clienttest.Check(t, all, fresh, nil, open)
	clienttest.CheckTaken(t, all, watched(clienttest.Full()), option(clienttest.Full()), withDialFn(clienttest.Full()))

	redirected := fresh()
	redirected.Standalone.EnableRedirect = true
	if _, err := open(redirected); err == nil || !strings.HasPrefix(err.Error(), "valkeygoquorumlock: invalid argument: Standalone: ") {
		t.Errorf("redirections: %v", err)
	}
}
