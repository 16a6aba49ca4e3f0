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

var (
	module   = clientnode.Module{Name: "goredisquorumlock", Address: "Addr", Database: "DB"}
	failover = clientnode.Module{Name: "goredisquorumlock", Address: "SentinelAddrs", Database: "DB"}
)

const (
	onConnect = "it expects a connection of go-redis, and a node makes its own"
	streaming = "a node asks for credentials once per connection: use CredentialsProviderContext"
	lacks     = "a replica may lack locks"
)

var (
	refusedOptions = [][2]string{
		{"OnConnect", onConnect},
		{"Limiter", "a node would not ask it"},
		{"StreamingCredentialsProvider", streaming},
	}
	refusedUniversal = [][2]string{
		{"IsClusterMode", "a node is one independent master, never a cluster"},
		{"ReadOnly", lacks}, {"RouteByLatency", lacks}, {"RouteRandomly", lacks},
	}
	refusedFailover = [][2]string{
		{"OnConnect", onConnect},
		{"StreamingCredentialsProvider", streaming},
		{"ReplicaOnly", lacks}, {"RouteByLatency", lacks}, {"RouteRandomly", lacks},
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
	if opt.Addr == "FailoverClient" {
		return nil, module.Refuse("Addr", "the Options of a client of Sentinel do not say where the sentinels are: OpenFailover takes its FailoverOptions")
	}
	addr, network := cmp.Or(opt.Addr, "localhost:6379"), cmp.Or(opt.Network, "tcp")
	if opt.Network == "" && strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	u, err := module.URL(addr, network == "unix", opt.TLSConfig != nil && opt.Dialer == nil, opt.DB)
	if err != nil {
		return nil, err
	}
	dial := dialer(opt)
	return open(opt, u, addr, func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, network, addr) }, opts)
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func dialer(opt *redis.Options) dialFunc {
	if opt.Dialer != nil {
		return opt.Dialer
	}
	return (&net.Dialer{KeepAlive: time.Minute}).DialContext
}

// open opens a node at a URL. addr names it in the error.
func open(opt *redis.Options, u *url.URL, addr string, dial dialFunc, opts []node.Option) (*node.Node, error) {
	timeouts := []time.Duration{opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout}
	timeouts = slices.DeleteFunc(timeouts, func(d time.Duration) bool { return d == defaultTimeout })
	taken, err := module.Timeout("DialTimeout, ReadTimeout, WriteTimeout", timeouts...)
	if err != nil {
		return nil, err
	}
	taken = append(taken, node.WithDialer(dial))
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

// OpenUniversal is [Open] for the options of a universal client of one master, or [OpenFailover] with a MasterName. It
// refuses clusters and replicas.
func OpenUniversal(opt *redis.UniversalOptions, opts ...node.Option) (*node.Node, error) {
	if opt == nil {
		return nil, module.Invalidf("the options are nil")
	}
	if err := module.CheckFields(opt, refusedUniversal); err != nil {
		return nil, err
	}
	if opt.MasterName != "" {
		own := *opt // Failover sets the default address
		return OpenFailover(own.Failover(), opts...)
	}
	if len(opt.Addrs) > 1 {
		return nil, module.Refuse("Addrs", "several addresses are a cluster, and a node is one independent master")
	}
	return Open(opt.Simple(), opts...)
}

// OpenFailover is [Open] for the master of a client of Sentinel. It needs [node.WithFailover]: without it a replica that
// Sentinel promotes may lack locks. The node's name is the master's, MasterName. A Dialer is for sentinels, too.
func OpenFailover(opt *redis.FailoverOptions, opts ...node.Option) (*node.Node, error) {
	if opt == nil {
		return nil, failover.Invalidf("the options are nil")
	}
	if err := failover.CheckFields(opt, refusedFailover); err != nil {
		return nil, err
	}
	u, err := failover.SentinelURL(clientnode.Sentinel{
		Addresses: opt.SentinelAddrs, Master: opt.MasterName, Username: opt.SentinelUsername, Password: opt.SentinelPassword,
	}, opt.TLSConfig != nil && opt.Dialer == nil, opt.DB)
	if err != nil {
		return nil, err
	}
	master := &redis.Options{
		Dialer: opt.Dialer, TLSConfig: opt.TLSConfig, Username: opt.Username, Password: opt.Password,
		CredentialsProvider: opt.CredentialsProvider, CredentialsProviderContext: opt.CredentialsProviderContext, DB: opt.DB,
		ClientName: opt.ClientName, DialTimeout: opt.DialTimeout, ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout,
	}
	return open(master, u, u.Host, dialer(master), opts)
}
