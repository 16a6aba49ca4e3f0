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
	"slices"
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

	InitAddress                    []string // of the sentinels, if Sentinel names a master
	Sentinel                       Sentinel
	Dialer                         net.Dialer
	DialFn                         func(string, *net.Dialer, *tls.Config) (net.Conn, error)
	DialCtxFn                      func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)
	TLSConfig                      *tls.Config
	Username, Password, ClientName string
	Ask                            func(net.Addr) (user, password string, err error) // AuthCredentialsFn
	SelectDB                       int
	ConnWriteTimeout               time.Duration
}

// Sentinel is what a node takes over of a client's option of Sentinel.
type Sentinel struct {
	Dialer                        net.Dialer
	TLSConfig                     *tls.Config
	MasterSet, Username, Password string
}

var refused = [][2]string{
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
	isTLS := o.TLSConfig != nil && o.DialCtxFn == nil && o.DialFn == nil
	if o.Sentinel.MasterSet != "" {
		return o.openWatched(by, isTLS, opts)
	}
	if n := len(o.InitAddress); n != 1 {
		return nil, by.Refuse("InitAddress", fmt.Sprintf("%d addresses, and a node is one independent master", n))
	}
	address := addressOf(o.InitAddress[0])
	u, err := by.URL(o.InitAddress[0], address.Network() == "unix", isTLS, o.SelectDB)
	if err != nil {
		return nil, err
	}
	dial := o.dialer(o.Dialer, o.TLSConfig)
	return o.open(by, u, address, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, address.String())
	}, opts)
}

// openWatched opens a node for a master that Sentinel names.
func (o Option) openWatched(by clientnode.Module, isTLS bool, opts []node.Option) (*node.Node, error) {
	switch {
	case o.Ask != nil:
		return nil, by.Refuse("AuthCredentialsFn", "with Sentinel a node does not know the master's address when it asks")
	case o.DialCtxFn == nil && o.DialFn == nil && o.Sentinel.TLSConfig != o.TLSConfig:
		return nil, by.Refuse("Sentinel.TLSConfig", "a node has one TLS configuration, for sentinels and masters: give both the same")
	}
	u, err := by.SentinelURL(clientnode.Sentinel{
		Addresses: o.InitAddress, Master: o.Sentinel.MasterSet, Username: o.Sentinel.Username, Password: o.Sentinel.Password,
	}, isTLS, o.SelectDB)
	if err != nil {
		return nil, err
	}
	sentinels := strings.Split(u.Host, ",")
	ofMaster, ofSentinel := o.dialer(o.Dialer, o.TLSConfig), o.dialer(o.Sentinel.Dialer, o.Sentinel.TLSConfig)
	return o.open(by, u, hostPort(u.Host), func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(sentinels, address) {
			return ofSentinel(ctx, network, address)
		}
		return ofMaster(ctx, network, address)
	}, opts)
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// open opens a node at a URL. address names it.
func (o Option) open(by clientnode.Module, u *url.URL, address net.Addr, dial dialFunc, opts []node.Option) (*node.Node, error) {
	taken, err := by.Timeout("Dialer.Timeout, ConnWriteTimeout", o.Dialer.Timeout, o.ConnWriteTimeout)
	if err != nil {
		return nil, err
	}
	taken = append(taken, node.WithDialer(dial))
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
func (o Option) dialer(by net.Dialer, config *tls.Config) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := by // of this connection: the function may change it
		if d.Timeout == 0 {
			d.Timeout = dialTimeout // DialFn has no context
		}
		switch {
		case o.DialCtxFn != nil:
			return o.DialCtxFn(ctx, address, &d, config)
		case o.DialFn != nil:
			return o.DialFn(address, &d, config)
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
