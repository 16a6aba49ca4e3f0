// Package node has one Redis master of a lock: its options, its errors, and the way to it. redlock.Open and
// multilock.Open open a node for each URL, with the options of quorum.WithNodeOptions:
//
//	locker, err := redlock.Open(urls, quorum.WithNodeOptions(node.WithTLS(config), node.WithTimeout(time.Second)))
//
// Open nodes yourself if masters need different options, or pools of your own ([New]), and give them to
// redlock.New:
//
//	n, err := node.Open("rediss://:secret@10.0.0.1", node.WithName("north"))
//	if err != nil {
//		return err
//	}
//	defer n.Close() // after the Locker
//
// The error of a call is an [*Error], which names the node. Package quorum/operator is for those who run the masters.
//
// A node keeps one connection for its calls (see [WithConns]), and one more for messages while a lock is waited for. A
// master that does not answer within the timeout (see [WithTimeout]) is down: calls fail at once, and a probe in the
// background finds when it answers again. When a master is made a replica, the node leaves it and dials its address
// again. A master that may have forgotten what it granted is in quarantine: it grants nothing new for one max lease
// (see [WithMaxLease]).
package node

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/scripts"
)

// Node is one independent Redis master: never a replica, never a cluster. It is safe for concurrent
// use.
type Node struct {
	embedded  // the pipes and subscriptions, which package quorum reaches by inside.Of
	server    server
	log       *stateLog
	group     sync.WaitGroup // of all goroutines that run until Close
	events    events.Queue   // the hooks that are to run
	lastError atomic.Pointer[Error]

	closeOnce sync.Once
	lifetime  context.Context // ends with Close
	end       context.CancelFunc
}

type embedded = inside.Embedded[*inside.Node]

// Open returns a node for a URL: redis://user:password@host:6379/1, rediss:// for TLS, valkey:// and valkeys:// as
// these two, or unix:///path/to/socket. The default port is 6379, the default database 0. A password alone is written
// :password@; special characters in it are percent-encoded. The query may have ?name= (as [WithName]), ?db= for a
// database that the path does not name, ?failover= (as [WithFailover]), ?prefix= (as [WithPrefix]), and with TLS
// ?server-name=, the name in the server's certificate.
//
// redis+sentinel://user:password@host1:26379,host2:26379/NAME?failover=1, or rediss+sentinel:// for TLS, asks Sentinel for
// the address of the master that it calls NAME, which is the node's name unless ?name= gives another. It asks again for
// each connection, and another sentinel if one does not answer or names no master. The user and the password are the master's;
// Sentinel's own are ?sentinel-username= and ?sentinel-password=. The default port is 26379, and a database is ?db=.
// Without [WithFailover] it is refused: a replica that is promoted may lack locks.
//
// The node connects on first use. The address must lead to one server: it is dialed four times more then, and refused
// with [ErrInvalid] if that leads to another master. The error wraps [ErrInvalid] and never repeats a password.
func Open(url string, opts ...Option) (*Node, error) {
	var e endpoint
	var ofURL error
	o, err := newOptions(append(slices.Clip(opts), func(o *options) { e, ofURL = parseURL(url, o) }))
	if err := cmp.Or(ofURL, err); err != nil {
		return nil, err
	}
	if e.sentinels != nil {
		if o.failover == 0 {
			return nil, invalidf("Sentinel may make a master of a replica that lacks locks: say how many replicas the master has, " +
				"by ?failover=1 in the URL or WithFailover(1), and all of them acknowledge each lock")
		}
		o.name, o.OneProcess = cmp.Or(o.name, e.sentinels.master), true
	}
	member, err := memberName(cmp.Or(o.name, e.address), e.database, o.prefix)
	if err != nil {
		return nil, err
	}
	if o.credentials != nil && e.password != "" {
		return nil, invalidf("the URL contains a password, and WithCredentials is given: leave one out")
	}
	n := newNode(o, e, nil)
	n.server.member = member
	return n, nil
}

// New returns a node over the caller's pool, which the caller closes after the node. The error
// wraps [ErrInvalid].
//
// The node keeps WithConns connections (by default 1) for its lifetime. It needs one more for messages, and
// one for package quorum/operator. It dials four more when it first connects, to find out whether the pool leads to two
// masters. If MaxActive is 0, it dials by the pool's Dial or DialContext, and takes no idle connections of the pool, which
// may lead to the master of before a failover; the pool does not count its connections. A MaxActive bounds them, too: then
// each idle connection to that master may delay the node by seconds. It should be at least 5 × (WithConns + 2). Below that the
// node dials fewer times, and below 2 × (WithConns + 2) never more than once. Below WithConns + 2, waiters poll, and
// operator.Check fails.
//
// The pool should bound its dials. The node bounds its own waits by its timeout, whatever the
// pool's. It does not bound the size of replies, as it does with Open.
//
// Servers older than Redis 6.2, and those that forbid CLIENT INFO to the user, do not report their
// address: such a node needs [WithName], and lockers refuse it without.
//
// All connections of the pool must use one database, and the pool must not change it. If that is not 0,
// the name must end with its number: WithName("a/1"). A connection to another database is refused, with
// [ErrMembership]. If the server does not report the database, because it is older than Redis 6.2 or the
// user may not use CLIENT INFO, the node selects it, and closes its connections instead of returning them
// to the pool.
func New(pool *redis.Pool, opts ...Option) (*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, invalidf("the pool is nil")
	}
	if len(o.ofURLs) > 0 {
		return nil, invalidf("%s is for Open: the pool makes the connections of New", o.ofURLs[0])
	}
	database, err := databaseOf(o.name)
	if err != nil {
		return nil, err
	}
	n := newNode(o, endpoint{database: database}, pool)
	if o.name != "" {
		n.server.member = scripts.MemberName(o.name, 0, o.prefix)
	}
	return n, nil
}

// newNode makes a node over that pool, or with nil over one of its own.
func newNode(o options, e endpoint, pool *redis.Pool) *Node {
	n := &Node{server: server{opts: o, endpoint: e, pool: pool}}
	if pool == nil {
		n.server.pool = n.server.newPool()
	}
	n.lifetime, n.end = context.WithCancel(context.Background())
	n.log = &stateLog{logger: o.logger, name: n.Name, told: inside.Unknown, warnedAt: map[string]time.Time{}}
	if hook := o.hooks.StateChanged; hook != nil {
		n.log.changed = func(e StateEvent) { n.events.Post(func() { hook(e) }) }
	}
	in := &inside.Node{Named: o.name != "", Alone: o.Alone, Prefix: scripts.KeyPrefix(o.prefix), Quarantine: o.maxLease,
		Replicas: o.failover, Log: n.log, Server: &n.server, Lifetime: n.lifetime}
	if o.noQuarantine {
		in.Quarantine = 0
	}
	for range o.conns {
		in.Pipes = append(in.Pipes, n.newPipe())
	}
	in.Subscriptions = pubsub.New(n.server.takeForMessages, o.timeout, n.newSource(), &n.group)
	n.server.hazard = n.log.Hazard
	n.server.leads.leave = func(unless string, why error) {
		for _, p := range in.Pipes {
			p.Leave(unless, why)
		}
		in.Subscriptions.Leave(unless)
	}
	n.embedded = inside.Embed(in)
	return n
}

func (n *Node) newPipe() *pipeline.Pipe {
	c := pipeline.Config{
		Timeout:  n.Timeout(),
		MaxLease: n.MaxLease(),
		Connect:  n.server.connect,
		Left:     n.server.left,
		Error:    n.noteError,
		Log:      n.log,
		Lifetime: n.lifetime,
		Group:    &n.group,
		Source:   n.newSource(),
	}
	if n.server.opts.hooks.ScriptEnded != nil {
		c.Timed = n.timeScript
	}
	return pipeline.New(c)
}

func (n *Node) newSource() rand.Source {
	random := n.server.opts.Random
	return rand.NewPCG(random.Uint64(), random.Uint64())
}

// Name returns the name given by [WithName] or the URL, or Sentinel's, otherwise host:port or the socket's path: never a
// password. It ends with the number of a database other than 0, as in 10.0.0.1:6379/1, and with the prefix, as in
// a?prefix=team. An address has one spelling, however the URL spells it: no capitals, no dot behind a domain, one form of
// each IP address. A node over a pool takes its address from the server, and its name is "pool" until the first
// connection.
func (n *Node) Name() string { return n.server.name() }

// Address returns the URL's host:port or socket path; for Sentinel its hosts and the master's name, as in
// a:26379,b:26379/NAME. It is empty for a node over a pool.
func (n *Node) Address() string { return n.server.address }

// MaxLease returns the longest lease of the deployment (see [WithMaxLease]).
func (n *Node) MaxLease() time.Duration { return n.server.opts.maxLease }

// Timeout returns the bound set by [WithTimeout].
func (n *Node) Timeout() time.Duration { return n.server.opts.timeout }

// Close waits for running calls, for at most two timeouts, and closes the connections. A pool given
// to [New] stays open. Close drops releases that wait for a node that is down, and releases that
// the server refused: their keys expire by their leases. Close is idempotent and returns nil.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		n.end()
		in := inside.Of(n)
		for _, p := range in.Pipes {
			p.Close()
		}
		in.Subscriptions.Close()
		n.log.close()
		ended, cancel := context.WithTimeout(context.Background(), 2*n.Timeout())
		go func() {
			n.group.Wait()
			<-n.events.Idle() // after the calls, whose ends are events
			<-n.log.lines.Idle()
			cancel()
		}()
		<-ended.Done()
	})
	return nil
}
