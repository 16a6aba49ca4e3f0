// Package rueidisnode opens nodes by the options of clients of rueidis, and of its fork valkey-go. Their types differ
// in nothing but the package.
package rueidisnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

const (
	page = "https://github.com/quorumlock/quorumlock/blob/main/docs/clients.md#what-is-refused"

	// dialTimeout is both clients' default.
	dialTimeout = 5 * time.Second
)

// Option is what a node takes over of a client's option.
type Option struct {
	Module string // for errors

	InitAddress                    []string
	Dialer                         net.Dialer
	DialFn                         func(string, *net.Dialer, *tls.Config) (net.Conn, error)
	DialCtxFn                      func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)
	TLSConfig                      *tls.Config
	Username, Password, ClientName string
	Ask                            func(net.Addr) (user, password string, err error) // AuthCredentialsFn
	SelectDB                       int
	ConnWriteTimeout               time.Duration
}

var refused = []struct{ field, reason string }{
	{"Sentinel", "it may make a master of a replica that lacks locks"},
	{"Standalone", "a node is one independent master, without replicas or redirections"},
	{"SendToReplicas", "a replica may lack locks"},
	{"ReplicaSelector", "a replica may lack locks"},
	{"ReadNodeSelector", "a replica may lack locks"},
	{"ReplicaOnly", "a replica may lack locks"},
	{"ShuffleInit", "a node has one address"},
}

// Open returns a node for the master of a client. Option o is taken of all the client's fields, some of which it
// refuses.
func Open(all any, o Option, opts ...node.Option) (*node.Node, error) {
	for _, r := range refused {
		if !reflect.ValueOf(all).FieldByName(r.field).IsZero() {
			return nil, o.refuse(r.field, r.reason)
		}
	}
	u, address, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	taken, err := o.withTimeout()
	if err != nil {
		return nil, err
	}
	taken = append(taken, node.WithDialer(o.dialer(address.String())), node.WithTLS(o.TLSConfig))
	switch {
	case o.Ask != nil:
		taken = append(taken, node.WithCredentials(func(context.Context) (user, password string, err error) {
			return o.Ask(address)
		}))
	case o.Username != "" && o.Password == "":
		return nil, o.refuse("Username", "a node logs nobody in without a Password")
	case o.Password != "":
		u.User = url.UserPassword(o.Username, o.Password)
	}
	if o.ClientName != "" {
		taken = append(taken, node.WithClientName(o.ClientName))
	}
	n, err := node.Open(u.String(), append(taken, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", o.Module, address, err)
	}
	return n, nil
}

// dialer returns what makes a connection as a client with this option does. The node makes the TLS
// handshake if neither DialFn nor DialCtxFn does.
func (o Option) dialer(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := o.Dialer // of this connection: the function may change it
		if d.Timeout == 0 {
			d.Timeout = dialTimeout // DialFn has no context
		}
		switch {
		case o.DialCtxFn != nil:
			return o.DialCtxFn(ctx, address, &d, o.TLSConfig)
		case o.DialFn != nil:
			return o.DialFn(address, &d, o.TLSConfig)
		}
		if d.KeepAlive == 0 {
			d.KeepAlive = time.Minute
		}
		return d.DialContext(ctx, network, address)
	}
}

// withTimeout returns the option that the client's timeouts make, if one is set.
func (o Option) withTimeout() (none []node.Option, err error) {
	dial, write := o.Dialer.Timeout, o.ConnWriteTimeout
	switch {
	case dial < 0 || write < 0:
		return nil, o.refuse("Dialer.Timeout, ConnWriteTimeout", "a node always has a timeout")
	case dial == 0 && write == 0:
		return none, nil
	case dial == 0 || write > 0 && write < dial:
		return []node.Option{node.WithTimeout(write)}, nil
	}
	return []node.Option{node.WithTimeout(dial)}, nil
}

// endpoint returns the node's URL, still without credentials, and what to dial.
func (o Option) endpoint() (*url.URL, net.Addr, error) {
	if len(o.InitAddress) != 1 {
		return nil, nil, o.refuse("InitAddress", fmt.Sprintf("%d addresses, and a node is one independent master",
			len(o.InitAddress)))
	}
	addr := o.InitAddress[0]
	if o.SelectDB < 0 {
		return nil, nil, o.invalidf("SelectDB %d is negative", o.SelectDB)
	}
	u := &url.URL{Scheme: "redis", RawQuery: "db=" + strconv.Itoa(o.SelectDB)}
	if o.TLSConfig != nil && o.DialCtxFn == nil && o.DialFn == nil {
		u.Scheme = "rediss"
	}
	if strings.HasPrefix(addr, "/") {
		if u.Scheme == "rediss" {
			return nil, nil, o.refuse("TLSConfig", "a node uses unix sockets without TLS")
		}
		u.Scheme, u.Path = "unix", addr
		u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // else it could end a password
		return u, &net.UnixAddr{Name: addr, Net: "unix"}, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, o.invalidf("InitAddress %q is not host:port", addr)
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

func (o Option) refuse(field, reason string) error {
	return o.invalidf("%s: %s (%s)", field, reason, page)
}

func (o Option) invalidf(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", o.Module, node.ErrInvalid, fmt.Sprintf(format, args...))
}
