package rueidisquorumlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/contrib/rueidisquorumlock"
	"github.com/quorumlock/quorumlock/internal/clienttest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func option(s clienttest.Settings) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: []string{s.Addr}, TLSConfig: s.TLS, Username: s.User, Password: s.Password, SelectDB: s.DB,
		ClientName: s.Name, ConnWriteTimeout: s.Timeout,
	}
	if s.Ask != nil {
		o.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password, err := s.Ask(context.Background())
			if c.Address.String() != s.Addr {
				err = errors.New("asked for the credentials of " + c.Address.String())
			}
			return rueidis.AuthCredentials{Username: user, Password: password}, err
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
func withDialFn(s clienttest.Settings) rueidis.ClientOption {
	o := option(s)
	o.DialCtxFn, o.ConnWriteTimeout, o.Dialer.Timeout, o.DialFn = nil, 0, s.Timeout, s.DialFn
	return o
}

// watched is of a master that Sentinel names.
func watched(s clienttest.Settings) rueidis.ClientOption {
	o := option(s)
	o.AuthCredentialsFn = nil
	o.Sentinel = rueidis.SentinelOption{MasterSet: "locks", Username: s.User, Password: s.Password, TLSConfig: s.TLS}
	return o
}

func TestSentinel(t *testing.T) {
	clienttest.Sentinel(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
		return rueidisquorumlock.Open(watched(s), opts...)
	})
}

func TestConnections(t *testing.T) {
	for name, of := range map[string]func(clienttest.Settings) rueidis.ClientOption{"DialCtxFn": option, "DialFn": withDialFn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clienttest.Run(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
				return rueidisquorumlock.Open(of(s), opts...)
			})
		})
	}
}

// docs/clients.md says of each field what becomes of it, and that happens. A field that a new version of
// rueidis brings fails this test until it is decided.
func TestEveryFieldIsDecided(t *testing.T) {
	all := clienttest.ReadDecisions(t, "rueidis and valkey-go")
	fresh := func() *rueidis.ClientOption { return &rueidis.ClientOption{InitAddress: []string{"10.0.0.1:6379"}} }
	open := func(o *rueidis.ClientOption) (*node.Node, error) { return rueidisquorumlock.Open(*o) }
	clienttest.Check(t, all, fresh, nil, open)
	clienttest.CheckTaken(t, all, watched(clienttest.Full()), option(clienttest.Full()), withDialFn(clienttest.Full()))

	redirected := fresh()
	redirected.Standalone.EnableRedirect = true
	if _, err := open(redirected); err == nil || !strings.HasPrefix(err.Error(), "rueidisquorumlock: invalid argument: Standalone: ") {
		t.Errorf("redirections: %v", err)
	}
}
