package rueidisnode_test

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

	"github.com/quorumlock/quorumlock/internal/rueidisnode"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// all has the fields of a client's option that are refused.
type all struct {
	Standalone                        struct{ MasterSet string }
	SendToReplicas                    func() bool
	ReplicaSelector, ReadNodeSelector func() int
	ReplicaOnly, ShuffleInit          bool
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
		n := testkit.Got(rueidisnode.Open(all{}, rueidisnode.Option{InitAddress: []string{addr},
			Ask: func(address net.Addr) (user, password string, err error) {
				got = address
				return "", "", failed
			}}))(t)
		_, err := operator.Check(t.Context(), n)
		testkit.Check(t, errors.Is(err, failed) && got.String() == addr && (want == nil || reflect.DeepEqual(got, want)),
			"%s: %#v, %v", addr, got, err)
		n.Close()
	}

	o := rueidisnode.Option{InitAddress: []string{"10.0.0.1:7000"}}
	o.Dialer.ControlContext = func(_ context.Context, network, addr string, _ syscall.RawConn) error {
		return errors.Join(failed, errors.New(network+" "+addr))
	}
	n := testkit.Opened(rueidisnode.Open(all{}, o))(t)
	if _, err := operator.Check(t.Context(), n); !errors.Is(err, failed) || !strings.Contains(err.Error(), "tcp4 10.0.0.1:7000") {
		t.Errorf("not dialled by the dialer: %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ dial, write, want time.Duration }{
		{0, 0, node.DefaultTimeout}, {s, 0, s}, {0, s, s}, {s, 2 * s, s}, {2 * s, s, s}, {5 * s, 10 * s, 5 * s},
	} {
		n := testkit.Got(rueidisnode.Open(all{}, rueidisnode.Option{
			InitAddress: []string{":6379"}, Dialer: net.Dialer{Timeout: c.dial}, ConnWriteTimeout: c.write,
		}))(t)
		testkit.Check(t, n.Timeout() == c.want && n.Address() == "localhost:6379", "%+v make %v, at %s", c, n.Timeout(), n.Address())
		n.Close()
	}
}

func watched(change func(*rueidisnode.Option)) func(*rueidisnode.Option) {
	return func(o *rueidisnode.Option) {
		o.Sentinel.MasterSet = "m"
		change(o)
	}
}

func noAsk(net.Addr) (user, password string, err error) { return "", "", nil }

func TestRefusals(t *testing.T) {
	type option = rueidisnode.Option
	for what, c := range map[string]struct {
		fields all
		change func(*option)
		want   string
	}{
		"Standalone": {all{Standalone: struct{ MasterSet string }{"m"}}, func(*option) {},
			"m: invalid argument: Standalone: a node is one independent master, without replicas or redirections " +
				"(https://github.com/quorumlock/quorumlock/blob/main/docs/clients.md#what-is-refused)"},
		"Sentinel":               {all{}, func(o *option) { o.Sentinel.MasterSet = "m" }, "m: 10.0.0.1:6379: node: invalid argument: Sentinel may make"},
		"Sentinel, asked":        {all{}, watched(func(o *option) { o.Ask = noAsk }), "AuthCredentialsFn: with Sentinel"},
		"Sentinel without TLS":   {all{}, watched(func(o *option) { o.TLSConfig = &tls.Config{} }), "Sentinel.TLSConfig: a node has one"},
		"Sentinel without hosts": {all{}, watched(func(o *option) { o.InitAddress = nil }), "InitAddress names no sentinel"},
		"Sentinel with an URL":   {all{}, watched(func(o *option) { o.InitAddress = []string{"a:1", "redis://b:2"} }), "InitAddress is no address"},
		"no address":             {all{}, func(o *option) { o.InitAddress = nil }, "InitAddress: 0 addresses, and a node is one"},
		"two addresses":          {all{}, func(o *option) { o.InitAddress = []string{"a:1", "b:1"} }, "InitAddress: 2 addresses"},
		"no port":                {all{}, func(o *option) { o.InitAddress = []string{"a"} }, `InitAddress "a" is not host:port`},
		"a named port":           {all{}, func(o *option) { o.InitAddress = []string{"a:redis"} }, "m: a:redis: "},
		"no dial timeout":        {all{}, func(o *option) { o.Dialer.Timeout = -1 }, "Timeout: a node always has a timeout"},
		"no timeout":             {all{}, func(o *option) { o.ConnWriteTimeout = -1 }, "Timeout: a node always has a timeout"},
		"a database":             {all{}, func(o *option) { o.SelectDB = -1 }, "SelectDB -1 is negative"},
		"a user alone":           {all{}, func(o *option) { o.Username = "app" }, "Username: a node logs nobody in"},
		"a client name":          {all{}, func(o *option) { o.ClientName = "a b" }, "printable ASCII"},
		"TLS on a socket": {all{}, func(o *option) { o.InitAddress, o.TLSConfig = []string{"/a"}, &tls.Config{} },
			"TLSConfig: a node uses unix sockets"},
	} {
		o := option{Module: "m", InitAddress: []string{"10.0.0.1:6379"}}
		c.change(&o)
		n, err := rueidisnode.Open(c.fields, o)
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil && strings.Contains(err.Error(), c.want), "%s: %v", what, err)
	}
}
