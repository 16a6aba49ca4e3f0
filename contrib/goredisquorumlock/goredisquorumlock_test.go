package goredisquorumlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/push"

	"github.com/quorumlock/quorumlock/contrib/goredisquorumlock"
	"github.com/quorumlock/quorumlock/internal/clienttest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func simple(s clienttest.Settings) *redis.Options {
	o := &redis.Options{
		Addr: s.Addr, Dialer: s.Dial, TLSConfig: s.TLS, Username: s.User, Password: s.Password,
		CredentialsProviderContext: s.Ask, DB: s.DB, ClientName: s.Name, ReadTimeout: s.Timeout,
	}
	if strings.HasPrefix(s.Addr, "/") {
		o.Network = "unix"
	}
	return o
}

// other has what simple leaves out.
func other(s clienttest.Settings) *redis.Options {
	o := &redis.Options{
		Network: "tcp", Addr: s.Addr, Dialer: s.Dial, TLSConfig: s.TLS, Username: s.User, Password: s.Password,
		DB: s.DB, ClientName: s.Name, DialTimeout: s.Timeout,
	}
	if strings.HasPrefix(s.Addr, "/") {
		o.Network = ""
	}
	if s.Ask != nil {
		o.CredentialsProvider = func() (user, password string) {
			user, password, _ = s.Ask(context.Background())
			return user, password
		}
	}
	return o
}

func universal(s clienttest.Settings) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: []string{s.Addr}, Dialer: s.Dial, TLSConfig: s.TLS, Username: s.User, Password: s.Password,
		CredentialsProviderContext: s.Ask, DB: s.DB, ClientName: s.Name, WriteTimeout: s.Timeout,
	}
}

func failover(s clienttest.Settings) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		SentinelAddrs: []string{s.Addr}, MasterName: "locks", SentinelUsername: s.User, SentinelPassword: s.Password,
		Dialer: s.Dial, TLSConfig: s.TLS, Username: s.User, Password: s.Password, CredentialsProviderContext: s.Ask,
		DB: s.DB, ClientName: s.Name, ReadTimeout: s.Timeout,
	}
}

func TestConnections(t *testing.T) {
	for name, open := range map[string]clienttest.Opener{
		"options": func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
			return goredisquorumlock.Open(simple(s), opts...)
		},
		// They have defaults filled in, and a dialer.
		"options of a client": func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
			client := redis.NewClient(other(s))
			defer client.Close()
			return goredisquorumlock.Open(client.Options(), opts...)
		},
		"universal options": func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
			return goredisquorumlock.OpenUniversal(universal(s), opts...)
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); clienttest.Run(t, open) })
	}
}

func TestSentinel(t *testing.T) {
	clienttest.Sentinel(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
		return goredisquorumlock.OpenFailover(failover(s), opts...)
	})
	clienttest.Sentinel(t, func(s clienttest.Settings, opts ...node.Option) (*node.Node, error) {
		o := universal(s)
		o.MasterName, o.SentinelUsername, o.SentinelPassword = "locks", s.User, s.Password
		return goredisquorumlock.OpenUniversal(o, opts...)
	})
}

type nothing struct {
	redis.Limiter
	auth.StreamingCredentialsProvider
}

// docs/clients.md says of each field what becomes of it, and that happens. A field that a new version of
// go-redis brings fails this test until it is decided.
func TestEveryFieldIsDecided(t *testing.T) {
	all := clienttest.ReadDecisions(t, "go-redis")
	values := map[string]any{
		"Limiter": nothing{}, "StreamingCredentialsProvider": nothing{},
		"PushNotificationProcessor": push.NewVoidProcessor(),
		"ClientSideCache":           redis.NewLocalCache(redis.ClientSideCacheConfig{}),
	}
	clienttest.Check(t, all, func() *redis.Options { return new(redis.Options) }, values,
		func(o *redis.Options) (*node.Node, error) { return goredisquorumlock.Open(o) })
	clienttest.Check(t, all, func() *redis.UniversalOptions { return new(redis.UniversalOptions) }, values,
		func(o *redis.UniversalOptions) (*node.Node, error) { return goredisquorumlock.OpenUniversal(o) })
	clienttest.Check(t, all, func() *redis.FailoverOptions { return failover(clienttest.Settings{Addr: "a:1"}) }, values,
		func(o *redis.FailoverOptions) (*node.Node, error) {
			return goredisquorumlock.OpenFailover(o, node.WithFailover(1))
		})
	clienttest.CheckTaken(t, all, failover(clienttest.Full()), simple(clienttest.Full()), other(clienttest.Full()), universal(clienttest.Full()))
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ network, addr, want string }{
		{"", "", "localhost:6379"},
		{"", ":7000", "localhost:7000"},
		{"tcp", "10.0.0.1:6379", "10.0.0.1:6379"},
		{"tcp6", "[fe80::1%eth0]:6379", "[fe80::1%eth0]:6379"},
		{"", "/run/redis.sock", "/run/redis.sock"},
		{"unix", "/run/a?b#c.sock", "/run/a?b#c.sock"},
	} {
		n, err := goredisquorumlock.Open(&redis.Options{Network: c.network, Addr: c.addr})
		if err != nil {
			t.Errorf("%s %q: %v", c.network, c.addr, err)
			continue
		}
		testkit.Check(t, n.Address() == c.want, "%s %q is %q, want %q", c.network, c.addr, n.Address(), c.want)
		n.Close()
	}
}

func TestTimeouts(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ dial, read, write, want time.Duration }{
		{0, 0, 0, node.DefaultTimeout},
		{5 * s, 5 * s, 5 * s, node.DefaultTimeout},
		{5 * s, 2 * s, 0, 2 * s},
		{0, 3 * s, 2 * s, 2 * s},
		{s, 2 * s, 3 * s, s},
		{9 * s, 0, 0, 9 * s},
	} {
		o := &redis.Options{DialTimeout: c.dial, ReadTimeout: c.read, WriteTimeout: c.write}
		client := redis.NewClient(o)
		for _, o := range []*redis.Options{o, client.Options()} {
			n := testkit.Got(goredisquorumlock.Open(o))(t)
			testkit.Check(t, n.Timeout() == c.want, "%+v make %v", c, n.Timeout())
			n.Close()
		}
		client.Close()
	}
}

func TestRefusals(t *testing.T) {
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:26379"}})
	defer sentinel.Close()
	ofOne := func(o redis.Options) func() (*node.Node, error) {
		return func() (*node.Node, error) { return goredisquorumlock.Open(&o) }
	}
	for what, c := range map[string]struct {
		open func() (*node.Node, error)
		want string
	}{
		"Sentinel without a failover": {func() (*node.Node, error) {
			return goredisquorumlock.OpenUniversal(&redis.UniversalOptions{MasterName: "m"})
		}, "goredisquorumlock: 127.0.0.1:26379: node: invalid argument: Sentinel may make a master of a replica that lacks locks"},
		"a client of Sentinel": {ofOne(*sentinel.Options()), "Addr: the Options of a client of Sentinel do not say"},
		"no sentinels": {func() (*node.Node, error) {
			return goredisquorumlock.OpenFailover(&redis.FailoverOptions{MasterName: "m"})
		}, "SentinelAddrs names no sentinel"},
		"no master's name": {func() (*node.Node, error) {
			return goredisquorumlock.OpenFailover(&redis.FailoverOptions{SentinelAddrs: []string{"a:1"}})
		}, "name of the master"},
		"nil, of Sentinel": {func() (*node.Node, error) { return goredisquorumlock.OpenFailover(nil) }, "the options are nil"},
		"a cluster": {func() (*node.Node, error) {
			return goredisquorumlock.OpenUniversal(&redis.UniversalOptions{Addrs: []string{"a:6379", "b:6379"}})
		}, "Addrs: several addresses are a cluster"},
		"no read timeout": {ofOne(redis.Options{ReadTimeout: -1}), "ReadTimeout, WriteTimeout: a node always has a timeout"},
		"no deadlines":    {ofOne(redis.Options{WriteTimeout: -2}), "ReadTimeout, WriteTimeout: a node always has a timeout"},
		"no port":         {ofOne(redis.Options{Addr: "10.0.0.1"}), `Addr "10.0.0.1" is not host:port`},
		"a named port":    {ofOne(redis.Options{Addr: "a:redis"}), "goredisquorumlock: a:redis: "},
		"a relative path": {ofOne(redis.Options{Network: "unix", Addr: "a.sock"}), "goredisquorumlock: a.sock: "},
		"a database":      {ofOne(redis.Options{DB: -1}), "DB -1 is negative"},
		"a user alone":    {ofOne(redis.Options{Username: "app"}), "Username: without a Password"},
		"a client name":   {ofOne(redis.Options{ClientName: "a b"}), "printable ASCII"},
		"TLS on a socket": {ofOne(redis.Options{Addr: "/a", TLSConfig: clienttest.Full().TLS}),
			"TLSConfig: a node uses unix sockets"},
		"nil":              {func() (*node.Node, error) { return goredisquorumlock.Open(nil) }, "the options are nil"},
		"nil, universal":   {func() (*node.Node, error) { return goredisquorumlock.OpenUniversal(nil) }, "the options are nil"},
		"a node's options": {func() (*node.Node, error) { return goredisquorumlock.Open(&redis.Options{}, nil) }, "is nil"},
	} {
		n, err := c.open()
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil && strings.Contains(err.Error(), c.want),
			"%s: %v", what, err)
	}
}
