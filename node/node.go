// Package node wraps one Redis master: a redigo pool, an ordered pipeline over few connections of it, the check that the
// master has not forgotten what it granted, and the probing of a master that does not answer.
//
// Users of locks need Open or New, the options, Check, Admit and Close. The rest is what package quorum is built on.
package node

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/scripts"
)

// Node is one independent Redis master: never a replica, never a cluster. It is safe for concurrent use.
type Node struct {
	name     atomic.Pointer[string]
	addr     string // of the URL; empty for a pool
	opts     options
	pool     *redis.Pool
	owned    bool // the pool is ours to close
	database int  // of the URL
	pipes    []*pipeline.Pipe
	log      stateLog

	subscriptions *pubsub.Subscriptions

	closeOnce sync.Once
	closed    chan struct{}
}

// Open returns a node for a redis, rediss, valkey, valkeys or unix URL, with user name, password and database where the
// URL has them. It connects on first use. The error wraps ErrInvalid and never repeats the password.
func Open(url string, opts ...Option) (*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	e, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	n := newNode(newPool(e, o), o)
	n.owned, n.addr, n.database = true, e.address, e.database
	if !n.Named() {
		n.name.Store(&n.addr)
	}
	return n, nil
}

// New returns a node over the caller's pool, which the caller closes after the node. It keeps one connection of the pool
// (see WithConns) for as long as it lives, and needs one more for messages while somebody waits for a lock, and one for Check
// and Admit: MaxActive should be 0 or at least WithConns + 2; with less, waiters poll, and Check and Admit fail. The pool should bound its dials; the node bounds what it waits for
// by its own time-out, whatever the pool's. Replies are not bounded in size, as they are with Open. All
// connections of the pool must lead to one database, to which the pool has to keep; a server that does not tell which (it is older than
// Redis 6.2, or the user may not use CLIENT INFO) is taken to lead to 0. The error wraps ErrInvalid.
func New(pool *redis.Pool, opts ...Option) (*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, invalidf("the pool is nil")
	}
	return newNode(pool, o), nil
}

func newNode(pool *redis.Pool, o options) *Node {
	n := &Node{opts: o, pool: pool, closed: make(chan struct{})}
	n.log.node = n
	n.name.Store(&o.name)
	for range o.conns {
		n.pipes = append(n.pipes, n.newPipe())
	}
	n.subscriptions = pubsub.New(pool, o.timeout, n.newSource())
	return n
}

func (n *Node) newPipe() *pipeline.Pipe {
	return pipeline.New(pipeline.Config{
		Timeout: n.opts.timeout, MaxLease: n.opts.maxLease,
		Connect: n.connect,
		Admit:   func() scripts.Call { return n.admitCall(false) }, Admitted: n.quarantineLeft,
		Error:  func(op string, err error) error { return &Error{n.Name(), op, err} },
		Log:    &n.log,
		Closed: n.closed, Source: n.newSource(),
	})
}

func (n *Node) newSource() rand.Source {
	return rand.NewPCG(n.opts.random.Uint64(), n.opts.random.Uint64())
}

// Unnamed is the name of a node over a pool that has not been reached yet.
const Unnamed = "pool"

// Name returns host:port, the socket's path, or the name given by WithName: never a password. Of a node over a pool,
// without WithName, it is what the server says its address is, and Unnamed until the first connection is made.
func (n *Node) Name() string {
	if name := *n.name.Load(); name != "" {
		return name
	}
	return Unnamed
}

// Named tells whether the name was given by WithName.
func (n *Node) Named() bool { return n.opts.name != "" }

// Address returns host:port, or the socket's path, of the URL given to Open; nothing for a node over a pool.
func (n *Node) Address() string { return n.addr }

// MaxLease returns the longest lease of the deployment, as this client was told.
func (n *Node) MaxLease() time.Duration { return n.opts.maxLease }

// Timeout returns the bound of WithTimeout.
func (n *Node) Timeout() time.Duration { return n.opts.timeout }

// Pipe returns the pipeline that carries the calls with that key: calls with one key are carried out in the order in which they were
// started. It is for package quorum.
func (n *Node) Pipe(key string) *pipeline.Pipe {
	if len(n.pipes) == 1 {
		return n.pipes[0]
	}
	sum := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		sum = (sum ^ uint32(key[i])) * 16777619
	}
	return n.pipes[sum%uint32(len(n.pipes))]
}

// Subscriptions returns the subscriptions to the node's channels. It is for package quorum.
func (n *Node) Subscriptions() *pubsub.Subscriptions { return n.subscriptions }

// Identify returns the run id of the server's process, connecting first where need be. The error is a *Error.
func (n *Node) Identify(ctx context.Context) (string, error) {
	r := n.Pipe("").Do(ctx, n.admitCall(false))
	return r.RunID, r.Err
}

// Close lets calls that are under way end, for at most two time-outs, and closes the connections; a pool given to New
// stays open. Releases that wait for a node that is down, or that the server refused, are lost with it: their keys are left to
// their leases. Close is idempotent.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		close(n.closed)
		overdue := time.NewTimer(2 * n.opts.timeout)
		defer overdue.Stop()
		var running []<-chan struct{}
		for _, p := range n.pipes {
			running = append(running, p.Close())
		}
		running = append(running, n.subscriptions.Close(), n.log.close())
		for _, ended := range running {
			select {
			case <-ended:
			case <-overdue.C:
				overdue.Reset(0)
			}
		}
		if n.owned {
			n.pool.Close()
		}
	})
	return nil
}
