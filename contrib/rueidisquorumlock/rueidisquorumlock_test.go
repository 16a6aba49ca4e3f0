package rueidisquorumlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/contrib/rueidisquorumlock"
	"github.com/quorumlock/quorumlock/internal/clienttest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func option(s clienttest.Settings) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: []string{s.Addr}, TLSConfig: s.TLS, Username: s.User, Password: s.Password, SelectDB: s.DB,
		ClientName: s.Name, ConnWriteTimeout: s.Timeout,
	}
	if s.Ask != nil {
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password, err := s.Ask(context.Background())
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

// withDialFn dials by the older function, which makes the TLS handshake with what it is given.
func withDialFn(s clienttest.Settings) rueidis.ClientOption {
	o := option(s)
	o.DialCtxFn, o.ConnWriteTimeout, o.Dialer.Timeout = nil, 0, s.Timeout
	o.DialFn = func(addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		switch {
		case d.Timeout == 0:
			return nil, errors.New("a dialer without a timeout")
		case s.Dial != nil:
			return s.Dial(context.Background(), "tcp", addr)
		case config != nil:
			return tls.DialWithDialer(d, "tcp", addr, config)
		case strings.HasPrefix(addr, "/"):
			return d.Dial("unix", addr)
		}
		return d.Dial("tcp", addr)
	}
	return o
}

func TestOption(t *testing.T) {
	t.Parallel()
	clienttest.Run(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
		return rueidisquorumlock.Open(option(s), opts...)
	})
}

func TestDialFn(t *testing.T) {
	t.Parallel()
	clienttest.Run(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
		return rueidisquorumlock.Open(withDialFn(s), opts...)
	})
}

// docs/clients.md says of each field what becomes of it, and that happens. A field that a new version of
// rueidis brings fails this test until it is decided.
func TestEveryFieldIsDecided(t *testing.T) {
	all := clienttest.ReadDecisions(t, "rueidis")
	fresh := func() *rueidis.ClientOption { return &rueidis.ClientOption{InitAddress: []string{"10.0.0.1:6379"}} }
	clienttest.Check(t, all, fresh, nil,
		func(o *rueidis.ClientOption) (*node.Node, error) { return rueidisquorumlock.Open(*o) })
	clienttest.CheckTaken(t, all, option(clienttest.Full()), withDialFn(clienttest.Full()))
}

// The net.Dialer makes the connections if no function does. AuthCredentialsFn gets the address.
func TestTheDialerAndTheAddress(t *testing.T) {
	failed := errors.New("asked")
	for addr, want := range map[string]net.Addr{
		"127.0.0.1:7000":      &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1).To4(), Port: 7000},
		"lock-a.internal:700": nil,
		"/run/redis.sock":     &net.UnixAddr{Name: "/run/redis.sock", Net: "unix"},
	} {
		var got net.Addr
		n, err := rueidisquorumlock.Open(rueidis.ClientOption{InitAddress: []string{addr},
			AuthCredentialsFn: func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				got = c.Address
				return rueidis.AuthCredentials{}, failed
			}})
		testkit.Must(t, err)
		_, err = operator.Check(t.Context(), n)
		if !errors.Is(err, failed) || got.String() != addr || want != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", addr, got, err)
		}
		n.Close()
	}

	o := rueidis.ClientOption{InitAddress: []string{"10.0.0.1:7000"}}
	o.Dialer.ControlContext = func(_ context.Context, network, addr string, _ syscall.RawConn) error {
		return errors.Join(failed, errors.New(network+" "+addr))
	}
	n, err := rueidisquorumlock.Open(o)
	testkit.Must(t, err)
	defer n.Close()
	if _, err := operator.Check(t.Context(), n); !errors.Is(err, failed) || !strings.Contains(err.Error(), "tcp4 10.0.0.1:7000") {
		t.Errorf("not dialled by the dialer: %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ dial, write, want time.Duration }{
		{0, 0, node.DefaultTimeout}, {s, 0, s}, {0, s, s}, {s, 2 * s, s}, {2 * s, s, s}, {5 * s, 10 * s, 5 * s},
	} {
		n, err := rueidisquorumlock.Open(rueidis.ClientOption{
			InitAddress: []string{":6379"}, Dialer: net.Dialer{Timeout: c.dial}, ConnWriteTimeout: c.write,
		})
		testkit.Must(t, err)
		if n.Timeout() != c.want || n.Address() != "localhost:6379" {
			t.Errorf("%+v make %v, at %s", c, n.Timeout(), n.Address())
		}
		n.Close()
	}
}

func TestRefusals(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*rueidis.ClientOption)
		want   string
	}{
		"Sentinel": {func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "m" },
			"rueidisquorumlock: invalid argument: Sentinel: it may make a master of a replica that lacks locks " +
				"(https://github.com/quorumlock/quorumlock/blob/main/docs/clients.md#what-is-refused)"},
		"redirections":    {func(o *rueidis.ClientOption) { o.Standalone.EnableRedirect = true }, "Standalone: "},
		"no address":      {func(o *rueidis.ClientOption) { o.InitAddress = nil }, "InitAddress: 0 addresses, and a node is one"},
		"two addresses":   {func(o *rueidis.ClientOption) { o.InitAddress = []string{"a:1", "b:1"} }, "InitAddress: 2 addresses"},
		"no port":         {func(o *rueidis.ClientOption) { o.InitAddress = []string{"a"} }, `InitAddress "a" is not host:port`},
		"a named port":    {func(o *rueidis.ClientOption) { o.InitAddress = []string{"a:redis"} }, "rueidisquorumlock: a:redis: "},
		"no dial timeout": {func(o *rueidis.ClientOption) { o.Dialer.Timeout = -1 }, "Timeout: a node always has a timeout"},
		"no timeout":      {func(o *rueidis.ClientOption) { o.ConnWriteTimeout = -1 }, "Timeout: a node always has a timeout"},
		"a database":      {func(o *rueidis.ClientOption) { o.SelectDB = -1 }, "SelectDB -1 is negative"},
		"a user alone":    {func(o *rueidis.ClientOption) { o.Username = "app" }, "Username: a node logs nobody in"},
		"a client name":   {func(o *rueidis.ClientOption) { o.ClientName = "a b" }, "printable ASCII"},
		"TLS on a socket": {func(o *rueidis.ClientOption) { o.InitAddress, o.TLSConfig = []string{"/a"}, &tls.Config{} },
			"TLSConfig: a node uses unix sockets"},
	} {
		o := rueidis.ClientOption{InitAddress: []string{"10.0.0.1:6379"}}
		c.change(&o)
		n, err := rueidisquorumlock.Open(o)
		if !errors.Is(err, node.ErrInvalid) || n != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
