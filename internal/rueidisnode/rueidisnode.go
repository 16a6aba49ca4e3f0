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
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/clientnode"
	"github.com/quorumlock/quorumlock/node"
)

// dialTimeout is both clients' default.
const dialTimeout = 5 * time.Second

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

var refused = [][2]string{
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
	by := clientnode.Module{Name: o.Module, Address: "InitAddress", Database: "SelectDB"}
	if err := by.CheckFields(all, refused); err != nil {
		return nil, err
	}
	if n := len(o.InitAddress); n != 1 {
		return nil, by.Refuse("InitAddress", fmt.Sprintf("%d addresses, and a node is one independent master", n))
	}
	address := addressOf(o.InitAddress[0])
	isTLS := o.TLSConfig != nil && o.DialCtxFn == nil && o.DialFn == nil
	u, err := by.URL(o.InitAddress[0], address.Network() == "unix", isTLS, o.SelectDB)
	if err != nil {
		return nil, err
	}
	taken, err := by.Timeout("Dialer.Timeout, ConnWriteTimeout", o.Dialer.Timeout, o.ConnWriteTimeout)
	if err != nil {
		return nil, err
	}
	taken = append(taken, node.WithDialer(o.dialer(address.String())))
	switch {
	case o.Ask != nil:
		taken = append(taken, node.WithCredentials(func(context.Context) (user, password string, err error) {
			return o.Ask(address)
		}))
	case o.Username != "" && o.Password == "":
		return nil, by.Refuse("Username", "a node logs nobody in without a Password")
	case o.Password != "":
		u.User = url.UserPassword(o.Username, o.Password)
	}
	return by.Open(u, address.String(), o.ClientName, o.TLSConfig, taken, opts)
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

// addressOf returns what to dial.
func addressOf(text string) net.Addr {
	if strings.HasPrefix(text, "/") {
		return &net.UnixAddr{Name: text, Net: "unix"}
	}
	if ip, err := netip.ParseAddrPort(text); err == nil {
		return net.TCPAddrFromAddrPort(ip)
	}
	return hostPort(text)
}

// hostPort is an address whose name is not resolved.
type hostPort string

func (hostPort) Network() string  { return "tcp" }
func (h hostPort) String() string { return string(h) }
