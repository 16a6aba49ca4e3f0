// Package rueidisquorumlock opens the nodes of a lock by the options of rueidis clients:
//
//	var nodes []*node.Node
//	for _, option := range options { // one for each master
//		n, err := rueidisquorumlock.Open(option)
//		if err != nil {
//			return nil, err
//		}
//		nodes = append(nodes, n) // the program closes them, after the locker
//	}
//	return redlock.New(nodes)
//
// A node makes connections of its own, as the option says: one to its master, one more while a lock
// is waited for. The client's connections and callbacks play no part. docs/clients.md in the
// repository says what becomes of each field.
package rueidisquorumlock

import (
	"net"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/rueidisnode"
	"github.com/quorumlock/quorumlock/node"
)

// Open returns a node for the master of a client with this option, which connects on first use. The node's own
// options come last: [node.WithTimeout], for example, replaces the client's timeouts.
//
// InitAddress is one host:port, or the path of a unix socket. With Sentinel.MasterSet it has the addresses of the
// sentinels, and the node needs [node.WithFailover]: otherwise a replica that Sentinel promotes may lack locks. A
// node has one timeout: the shorter of Dialer.Timeout and ConnWriteTimeout, or [node.DefaultTimeout] if neither is
// set. DialFn and DialCtxFn make the TLS handshake themselves, as for rueidis. AuthCredentialsFn gets the address
// before its name is resolved. RefreshAfter does nothing: a node asks for credentials once per connection.
//
// The error wraps [node.ErrInvalid], also for a field that a node cannot take over.
func Open(option rueidis.ClientOption, opts ...node.Option) (*node.Node, error) {
	taken := rueidisnode.Option{
		Module: "rueidisquorumlock", InitAddress: option.InitAddress, SelectDB: option.SelectDB,
		Dialer: option.Dialer, DialFn: option.DialFn, DialCtxFn: option.DialCtxFn, TLSConfig: option.TLSConfig,
		Username: option.Username, Password: option.Password, ClientName: option.ClientName,
		ConnWriteTimeout: option.ConnWriteTimeout,
		Sentinel: rueidisnode.Sentinel{
			Dialer: option.Sentinel.Dialer, TLSConfig: option.Sentinel.TLSConfig,
			MasterSet: option.Sentinel.MasterSet, Username: option.Sentinel.Username, Password: option.Sentinel.Password,
		},
	}
	if ask := option.AuthCredentialsFn; ask != nil {
		taken.Ask = func(address net.Addr) (user, password string, err error) {
			c, err := ask(rueidis.AuthCredentialsContext{Address: address})
			return c.Username, c.Password, err
		}
	}
	return rueidisnode.Open(option, taken, opts...)
}
