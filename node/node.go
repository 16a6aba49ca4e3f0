// Package node wraps one Redis master: a redigo pool, an ordered pipeline over few connections of it, the check that the
// master has not forgotten what it granted, and the probing of a master that does not answer.
//
// Users of locks need Open or New, the options, Check, Admit and Close. The rest is what package quorum is built on.
package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/scripts"
)

// Node is one independent Redis master: never a replica, never a cluster. It is safe for concurrent use.
type Node struct {
	name  atomic.Pointer[string]
	addr  string // of the URL; empty for a pool
	opts  options
	pool  *redis.Pool
	owned bool // the pool is ours to close
	pipes []*pipe
	ears  *ears
	log   journal

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
	n.owned, n.addr = true, e.address
	if !n.Named() {
		n.name.Store(&n.addr)
	}
	return n, nil
}

// New returns a node over the caller's pool, which the caller closes after the node. It keeps one connection of the pool
// (see WithConns) for as long as it lives, and needs one more for messages while somebody waits for a lock, and one for Check
// and Admit: MaxActive should be 0 or at least WithConns + 2; with less, waiters poll, and Check and Admit fail. The pool should bound its dials; the node bounds what it waits for
// by its own time-out, whatever the pool's. Replies are not bounded in size, as they are with Open. The error wraps ErrInvalid.
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
		n.pipes = append(n.pipes, newPipe(n))
	}
	n.ears = newEars(n)
	return n
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

// Result is what became of a call.
type Result struct {
	Value any    // the server's reply, when Err is nil
	Err   error  // a *Error
	RunID string // of the process that replied
	Sent  bool   // the call reached the wire: with an error, it may have been carried out
	Twice bool   // it went out on a connection that died, and again: it may have been carried out before
}

// Receiver is told what became of a call.
type Receiver interface {
	// Done is called once, for each call that Start accepted: about two time-outs after at the latest, when the master does
	// not answer, and a few more when its connections die again and again. It is called by the node's goroutines, so it must
	// not block.
	Done(Result)
}

// Claim is what the pipeline must know of one owner's calls on one node. The zero value is ready for use.
type Claim struct {
	abandoned atomic.Bool // nothing may be granted any more
	stray     atomic.Bool // a request for a grant was on a connection that died: it may be carried out however late
}

// Abandon tells that nothing may be granted to the owner any more: a request that would have to go out once more does not. It
// must be called before the owner's release is started, so that none can come to stand behind it.
func (c *Claim) Abandon() { c.abandoned.Store(true) }

// Start puts a call into the pipeline and returns at once. Calls with the same key are carried out in the order of their
// Starts. The claim is the owner's, nil for calls that can grant nothing. An error, a *Error, says that the call was not sent
// and that to will not hear of it; a release that was refused so because the node is down is kept, and goes out as soon as the
// node answers again.
func (n *Node) Start(key string, call scripts.Call, claim *Claim, to Receiver) error {
	return n.pipe(key).start(request{call: call, claim: claim, to: to})
}

// Down returns why calls with that key are refused now, a *Error; nil while they are not.
func (n *Node) Down(key string) error { return n.pipe(key).refuses() }

// Do runs one call and waits for it, or for ctx, which ends only the waiting.
func (n *Node) Do(ctx context.Context, key string, call scripts.Call) Result {
	w := waiter{done: make(chan Result, 1)}
	if err := n.Start(key, call, nil, w); err != nil {
		return Result{Err: err}
	}
	select {
	case r := <-w.done:
		return r
	case <-ctx.Done():
		return Result{Err: &Error{n.Name(), call.Op(), ctx.Err()}, Sent: true}
	}
}

type waiter struct{ done chan Result }

func (w waiter) Done(r Result) { w.done <- r }

// Lane tells which of the node's connections carries the calls with that key: 0 to the number of WithConns − 1. Calls of
// one lane may travel together.
func (n *Node) Lane(key string) int {
	if len(n.pipes) == 1 {
		return 0
	}
	sum := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		sum = (sum ^ uint32(key[i])) * 16777619
	}
	return int(sum % uint32(len(n.pipes)))
}

func (n *Node) pipe(key string) *pipe { return n.pipes[n.Lane(key)] }

// Identify returns the run id of the server's process, connecting first where need be. The error is a *Error.
func (n *Node) Identify(ctx context.Context) (string, error) {
	r := n.Do(ctx, "", n.admitCall(false))
	return r.RunID, r.Err
}

// Close lets calls that are under way end, for at most two time-outs, and closes the connections; a pool given to New
// stays open. Releases that wait for a node that is down are lost with it: their keys are left to their leases. Close is
// idempotent.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		close(n.closed)
		overdue := time.NewTimer(2 * n.opts.timeout)
		defer overdue.Stop()
		for _, p := range n.pipes {
			p.close()
		}
		running := []<-chan struct{}{n.ears.close(), n.log.close()}
		for _, p := range n.pipes {
			running = append(running, p.ended)
		}
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
