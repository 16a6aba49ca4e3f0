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
	"context"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/node"
)

const (
	page = "https://github.com/quorumlock/quorumlock/blob/main/docs/clients.md#what-is-refused"

	// defaultTimeout is what the Options of a client have for a timeout that is not set.
	defaultTimeout = 5 * time.Second
)

type refusal struct{ field, reason string }

var (
	refusedOptions = []refusal{
		{"OnConnect", "it expects a connection of go-redis, and a node makes its own"},
		{"Limiter", "a node would not ask it"},
		{"StreamingCredentialsProvider",
			"a node asks for credentials once per connection: use CredentialsProviderContext"},
	}
	refusedUniversal = []refusal{
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
		return nil, invalidf("the options are nil")
	}
	if err := refuse(opt, refusedOptions); err != nil {
		return nil, err
	}
	u, network, addr, err := endpoint(opt)
	if err != nil {
		return nil, err
	}
	taken, err := withTimeout(opt)
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
		return nil, refusal{"Username", "without a Password go-redis logs nobody in"}.err()
	case opt.Password != "":
		u.User = url.UserPassword(opt.Username, opt.Password)
	}
	if opt.ClientName != "" {
		taken = append(taken, node.WithClientName(opt.ClientName))
	}
	taken = append(taken, node.WithTLS(opt.TLSConfig))
	n, err := node.Open(u.String(), append(taken, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("goredisquorumlock: %s: %w", addr, err)
	}
	return n, nil
}

// OpenUniversal is [Open] for the options of a universal client of one master. It refuses Sentinel,
// clusters and replicas.
func OpenUniversal(opt *redis.UniversalOptions, opts ...node.Option) (*node.Node, error) {
	if opt == nil {
		return nil, invalidf("the options are nil")
	}
	if err := refuse(opt, refusedUniversal); err != nil {
		return nil, err
	}
	if len(opt.Addrs) > 1 {
		return nil, refusal{"Addrs", "several addresses are a cluster, and a node is one independent master"}.err()
	}
	return Open(opt.Simple(), opts...)
}

// refuse returns an error for the first of these fields that is set.
func refuse(opt any, refused []refusal) error {
	fields := reflect.ValueOf(opt).Elem()
	for _, r := range refused {
		if !fields.FieldByName(r.field).IsZero() {
			return r.err()
		}
	}
	return nil
}

func (r refusal) err() error { return invalidf("%s: %s (%s)", r.field, r.reason, page) }

// withTimeout returns the option that the client's timeouts make, if one is set.
func withTimeout(opt *redis.Options) (none []node.Option, err error) {
	var shortest time.Duration
	for _, d := range []time.Duration{opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout} {
		if d < 0 {
			return nil, refusal{"DialTimeout, ReadTimeout, WriteTimeout", "a node always has a timeout"}.err()
		}
		if d > 0 && d != defaultTimeout && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	if shortest == 0 {
		return none, nil
	}
	return []node.Option{node.WithTimeout(shortest)}, nil
}

// endpoint returns the node's URL, still without credentials, and what to dial.
func endpoint(opt *redis.Options) (u *url.URL, network, addr string, err error) {
	network, addr = opt.Network, opt.Addr
	if addr == "FailoverClient" { // the Options of a client of Sentinel have no address
		return nil, "", "", refusedUniversal[0].err()
	}
	if addr == "" {
		addr = "localhost:6379"
	}
	if network == "" {
		network = "tcp"
		if strings.HasPrefix(addr, "/") {
			network = "unix"
		}
	}
	if opt.DB < 0 {
		return nil, "", "", invalidf("DB %d is negative", opt.DB)
	}
	u = &url.URL{Scheme: "redis", RawQuery: "db=" + strconv.Itoa(opt.DB)}
	if opt.TLSConfig != nil && opt.Dialer == nil {
		u.Scheme = "rediss"
	}
	if network == "unix" {
		if u.Scheme == "rediss" {
			return nil, "", "", refusal{"TLSConfig", "a node uses unix sockets without TLS"}.err()
		}
		u.Scheme, u.Path = "unix", addr
		u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // else it could end a password
		return u, network, addr, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", "", invalidf("Addr %q is not host:port", addr)
	}
	if host == "" {
		host = "localhost"
	}
	u.Host = net.JoinHostPort(host, port)
	return u, network, addr, nil
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("goredisquorumlock: %w: %s", node.ErrInvalid, fmt.Sprintf(format, args...))
}
