// Package roster knows which masters accept a locker: each accepts the clients with its own list of
// masters, and refuses all others. With the locker's list it marks masters that are unmarked (new,
// restarted or flushed), where package membership allows that.
//
// A [Survey] looks at all nodes, marks those that may be marked, and says of each why it does not
// accept the locker. The questions that come while one runs share the next one:
//
//	[Roster.Survey]          about all nodes: when a Locker is made, while the list is not known, and
//	                         when Ready has found too few nodes
//	[Roster.Recheck]         about one, which has refused a request for a grant
//	[Roster.RenewalRefused]  about one, which has refused a renewal; nobody waits for the answer
//
// Between surveys the requests themselves show what has changed: [Roster.NoteAccepted] and
// [Roster.Refusal] record it for [Roster.Accepts].
//
// The errors are package node's, and say what to do. A *node.Error is one that a caller of
// package quorum gets.
package roster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Roster is the list of masters of one locker, and what is known of the nodes that accept it. It is
// safe for concurrent use. The zero Roster has no nodes, and its list is not known.
type Roster struct {
	nodes []*node.Node
	clock clock.Clock
	opts  Options

	list atomic.Pointer[scripts.List] // nil while it is not known

	wasAccepted atomic.Bool    // a node has accepted this locker
	refusedAt   []atomic.Int64 // by node: when it was found not to accept this locker; clock.Never if it has accepted it since

	mu      sync.Mutex
	asked   []question // the next survey answers them
	running bool
}

// Options are what a Roster needs from its locker. All but the flags are required.
type Options struct {
	Founds bool // it may found a deployment: see membership.Client
	Exists bool // it was told that the deployment exists, and founds none

	NewOwner func() scripts.Owner // of the locker
	Go       func(f func())       // runs f in a goroutine of the locker's
	IsClosed func() bool
}

// New returns the roster of a locker over the nodes. It asks them nothing.
func New(nodes []*node.Node, c clock.Clock, opts Options) *Roster {
	r := &Roster{nodes: nodes, clock: c, opts: opts, refusedAt: make([]atomic.Int64, len(nodes))}
	for i := range nodes {
		r.refusedAt[i].Store(int64(clock.Never))
	}
	return r
}

// List returns the list of masters; nil while it is not known.
func (r *Roster) List() *scripts.List { return r.list.Load() }

// Resolve makes the list of masters from the nodes' names. It returns nil while a name is unknown (a node over a pool
// has none until it is connected to), or if the names make no list.
func (r *Roster) Resolve() *scripts.List {
	names := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		names[i] = n.Name()
		if names[i] == inside.Unnamed || slices.Contains(names[:i], names[i]) {
			return nil
		}
	}
	if hosts.Mixed(r.nodes) != nil {
		return nil
	}
	r.list.CompareAndSwap(nil, scripts.NewList(names...))
	return r.list.Load()
}

// NoteAccepted records that a node accepted this locker, by its reply to a request sent at sent.
func (r *Roster) NoteAccepted(node int, sent clock.Instant) {
	if refused := r.refusedAt[node].Load(); refused != int64(clock.Never) && refused <= int64(sent) {
		r.refusedAt[node].CompareAndSwap(refused, int64(clock.Never))
	}
}

func (r *Roster) noteRefused(node int) { r.refusedAt[node].Store(int64(r.clock.Now())) }

// Accepts reports whether the node has accepted this locker since it was last found not to.
func (r *Roster) Accepts(node int) bool { return r.refusedAt[node].Load() == int64(clock.Never) }

// client describes this locker for package membership. An even number of masters founds no deployment, but once
// masters have accepted this locker, it may go on with theirs.
func (r *Roster) client(list *scripts.List) membership.Client {
	return membership.Client{
		List: list, Found: r.opts.Founds || r.wasAccepted.Load(), Exists: r.opts.Exists,
		Quarantine: func(i int) time.Duration { return inside.Of(r.nodes[i]).Quarantine },
	}
}
