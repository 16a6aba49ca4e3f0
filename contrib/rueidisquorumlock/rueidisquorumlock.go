// Package rueidisquorumlock opens the nodes of a lock by the options of rueidis clients:
//
//	n, err := rueidisquorumlock.Open(option)
//	...
//	locker, err := redlock.New(nodes) // one node for each option
//
// A node makes connections of its own, as the option says: one to its master, one more while a lock
// is waited for. The client's connections and callbacks play no part. docs/clients.md in the
// repository says what becomes of each field.
package rueidisquorumlock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/node"
)

const page = "https://github.com/quorumlock/quorumlock/blob/main/docs/clients.md#what-is-refused"

type refusal struct{ field, reason string }

var refused = []refusal{
	{"Sentinel", "it may make a master of a replica that lacks locks"},
	{"Standalone", "a node is one independent master, without replicas or redirections"},
	{"SendToReplicas", "a replica may lack locks"},
	{"ReplicaSelector", "a replica may lack locks"},
	{"ReadNodeSelector", "a replica may lack locks"},
	{"ReplicaOnly", "a replica may lack locks"},
	{"ShuffleInit", "a node has one address"},
}

// Open returns a node for the master of a client with this option, which connects on first use. The
// node's own options come last: [node.WithTimeout], for example, replaces the client's timeouts.
//
// InitAddress has one address: host:port, or the path of a unix socket. A node has one timeout: the
// shorter of Dialer.Timeout and ConnWriteTimeout, or [node.DefaultTimeout] if neither is set. DialFn
// and DialCtxFn make the TLS handshake themselves, as for rueidis. AuthCredentialsFn gets the
// address before its name is resolved, and RefreshAfter does nothing: a node asks for credentials
// once per connection.
//
// The error wraps [node.ErrInvalid], also for a field that a node cannot take over.
func Open(option rueidis.ClientOption, opts ...node.Option) (*node.Node, error) {
	fields := reflect.ValueOf(option)
	for _, r := range refused {
		if !fields.FieldByName(r.field).IsZero() {
			return nil, r.err()
		}
	}
	u, address, err := endpoint(option)
	if err != nil {
		return nil, err
	}
	taken, err := withTimeout(option)
	if err != nil {
		return nil, err
	}
	taken = append(taken, node.WithDialer(dialer(option, address.String())), node.WithTLS(option.TLSConfig))
	switch ask := option.AuthCredentialsFn; {
	case ask != nil:
		taken = append(taken, node.WithCredentials(func(context.Context) (user, password string, err error) {
			c, err := ask(rueidis.AuthCredentialsContext{Address: address})
			return c.Username, c.Password, err
		}))
	case option.Username != "" && option.Password == "":
		return nil, refusal{"Username", "a node logs nobody in without a Password"}.err()
	case option.Password != "":
		u.User = url.UserPassword(option.Username, option.Password)
	}
	if option.ClientName != "" {
		taken = append(taken, node.WithClientName(option.ClientName))
	}
	n, err := node.Open(u.String(), append(taken, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("rueidisquorumlock: %s: %w", address, err)
	}
	return n, nil
}

func (r refusal) err() error { return invalidf("%s: %s (%s)", r.field, r.reason, page) }

// dialer returns what makes a connection as a client with this option does. The node makes the TLS
// handshake if neither DialFn nor DialCtxFn does.
func dialer(option rueidis.ClientOption, address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := option.Dialer // of this connection: the function may change it
		if d.Timeout == 0 {
			d.Timeout = rueidis.DefaultDialTimeout // DialFn has no context
		}
		switch {
		case option.DialCtxFn != nil:
			return option.DialCtxFn(ctx, address, &d, option.TLSConfig)
		case option.DialFn != nil:
			return option.DialFn(address, &d, option.TLSConfig)
		}
		if d.KeepAlive == 0 {
			d.KeepAlive = time.Minute
		}
		return d.DialContext(ctx, network, address)
	}
}

// withTimeout returns the option that the client's timeouts make, if one is set.
func withTimeout(option rueidis.ClientOption) (none []node.Option, err error) {
	dial, write := option.Dialer.Timeout, option.ConnWriteTimeout
	switch {
	case dial < 0 || write < 0:
		return nil, refusal{"Dialer.Timeout, ConnWriteTimeout", "a node always has a timeout"}.err()
	case dial == 0 && write == 0:
		return none, nil
	case dial == 0 || write > 0 && write < dial:
		return []node.Option{node.WithTimeout(write)}, nil
	}
	return []node.Option{node.WithTimeout(dial)}, nil
}

// endpoint returns the node's URL, still without credentials, and what to dial.
func endpoint(option rueidis.ClientOption) (*url.URL, net.Addr, error) {
	if len(option.InitAddress) != 1 {
		return nil, nil, refusal{"InitAddress", fmt.Sprintf("%d addresses, and a node is one independent master",
			len(option.InitAddress))}.err()
	}
	addr := option.InitAddress[0]
	if option.SelectDB < 0 {
		return nil, nil, invalidf("SelectDB %d is negative", option.SelectDB)
	}
	u := &url.URL{Scheme: "redis", RawQuery: "db=" + strconv.Itoa(option.SelectDB)}
	if option.TLSConfig != nil && option.DialCtxFn == nil && option.DialFn == nil {
		u.Scheme = "rediss"
	}
	if strings.HasPrefix(addr, "/") {
		if u.Scheme == "rediss" {
			return nil, nil, refusal{"TLSConfig", "a node uses unix sockets without TLS"}.err()
		}
		u.Scheme, u.Path = "unix", addr
		u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // else it could end a password
		return u, &net.UnixAddr{Name: addr, Net: "unix"}, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, invalidf("InitAddress %q is not host:port", addr)
	}
	if host == "" {
		host = "localhost"
	}
	u.Host = net.JoinHostPort(host, port)
	if ip, err := netip.ParseAddrPort(addr); err == nil {
		return u, net.TCPAddrFromAddrPort(ip), nil
	}
	return u, hostPort(addr), nil
}

// hostPort is an address whose name is not resolved.
type hostPort string

func (hostPort) Network() string  { return "tcp" }
func (h hostPort) String() string { return string(h) }

func invalidf(format string, args ...any) error {
	return fmt.Errorf("rueidisquorumlock: %w: %s", node.ErrInvalid, fmt.Sprintf(format, args...))
}
