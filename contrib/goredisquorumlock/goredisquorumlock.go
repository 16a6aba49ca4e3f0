// Package goredisquorumlock opens the nodes of a lock by the options of go-redis clients:
//
//	var nodes []*node.Node
//	for _, client := range clients { // one for each master
//		n, err := goredisquorumlock.Open(client.Options())
//		if err != nil {
//			return nil, err
//		}
//		nodes = append(nodes, n) // the program closes them, after the locker
//	}
//	return redlock.New(nodes)
//
// A node makes connections of its own, as the options say: one to its master, one more while a lock
// is waited for. The client's pools and hooks play no part. docs/clients.md in the repository says
// what becomes of each option.
package goredisquorumlock

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/clientnode"
	"github.com/quorumlock/quorumlock/node"
)

// defaultTimeout is what the Options of a client have for a timeout that is not set.
const defaultTimeout = 5 * time.Second

var module = clientnode.Module{Name: "goredisquorumlock", Address: "Addr", Database: "DB"}

var (
	refusedOptions = [][2]string{
		{"OnConnect", "it expects a connection of go-redis, and a node makes its own"},
		{"Limiter", "a node would not ask it"},
		{"StreamingCredentialsProvider",
			"a node asks for credentials once per connection: use CredentialsProviderContext"},
	}
	refusedUniversal = [][2]string{
		{"MasterName", "Sentinel may make a master of a replica that lacks locks"},
		{"SentinelUsername", "a node is one independent master, without Sentinel"},
		{"SentinelPassword", "a node is one independent master, without Sentinel"},
		{"IsClusterMode", "a node is one independent master, never a cluster"},
		{"ReadOnly", "a replica may lack locks"},
		{"RouteByLatency", "a replica may lack locks"},
		{"RouteRandomly", "a replica may lack locks"},
	}
)

// Open returns a node for the master of a client with these options, which connects on first use. The
// options may be those that a *redis.Client returns. The node's own options come last:
// [node.WithTimeout], for example, replaces the client's timeouts.
//
// A node has one timeout: the shortest of DialTimeout, ReadTimeout and WriteTimeout, or
// [node.DefaultTimeout] if none is set. 5 s, go-redis's default, counts as not set. A Dialer makes
// the TLS handshake itself, as for go-redis.
//
// The error wraps [node.ErrInvalid], also for an option that a node cannot take over.
func Open(opt *redis.Options, opts ...node.Option) (*node.Node, error) {
	if opt == nil {
		return nil, module.Invalidf("the options are nil")
	}
	if err := module.CheckFields(opt, refusedOptions); err != nil {
		return nil, err
	}
	if opt.Addr == "FailoverClient" { // the Options of a client of Sentinel have no address
		return nil, module.Refuse(refusedUniversal[0][0], refusedUniversal[0][1])
	}
	addr, network := cmp.Or(opt.Addr, "localhost:6379"), cmp.Or(opt.Network, "tcp")
	if opt.Network == "" && strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	u, err := module.URL(addr, network == "unix", opt.TLSConfig != nil && opt.Dialer == nil, opt.DB)
	if err != nil {
		return nil, err
	}
	timeouts := []time.Duration{opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout}
	timeouts = slices.DeleteFunc(timeouts, func(d time.Duration) bool { return d == defaultTimeout })
	taken, err := module.Timeout("DialTimeout, ReadTimeout, WriteTimeout", timeouts...)
	if err != nil {
		return nil, err
	}
	dial := opt.Dialer
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: time.Minute}).DialContext
	}
	taken = append(taken, node.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx, network, addr)
	}))
	switch ask := opt.CredentialsProvider; {
	case opt.CredentialsProviderContext != nil:
		taken = append(taken, node.WithCredentials(opt.CredentialsProviderContext))
	case ask != nil:
		taken = append(taken, node.WithCredentials(func(context.Context) (user, password string, err error) {
			user, password = ask()
			return user, password, nil
		}))
	case opt.Username != "" && opt.Password == "":
		return nil, module.Refuse("Username", "without a Password go-redis logs nobody in")
	case opt.Password != "":
		u.User = url.UserPassword(opt.Username, opt.Password)
	}
	return module.Open(u, addr, opt.ClientName, opt.TLSConfig, taken, opts)
}

// OpenUniversal is [Open] for the options of a universal client of one master. It refuses Sentinel,
// clusters and replicas.
func OpenUniversal(opt *redis.UniversalOptions, opts ...node.Option) (*node.Node, error) {
	if opt == nil {
		return nil, module.Invalidf("the options are nil")
	}
	if err := module.CheckFields(opt, refusedUniversal); err != nil {
		return nil, err
	}
	if len(opt.Addrs) > 1 {
		return nil, module.Refuse("Addrs", "several addresses are a cluster, and a node is one independent master")
	}
	return Open(opt.Simple(), opts...)
}
