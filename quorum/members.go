package quorum

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// members is the locker's list of masters, and what is known of the nodes that let it in. With it
// blank nodes are marked: package membership decides which, and rounds look at the nodes and mark
// them.
type members struct {
	core   *core
	founds bool // it may found a deployment: see membership.Client
	exists bool // see WithExistingDeployment
	// wasLetIn: a node has let this locker in.
	wasLetIn atomic.Bool
	// letIn is, for each node, when the request was sent by which it last let this locker in.
	letIn []atomic.Int64
	// keptOut is, for each node, when it was last found not to let this locker in: for Stats.
	keptOut  []atomic.Int64
	saidNew  atomic.Bool                  // noteNew has logged
	newUntil atomic.Int64                 // a clock.Instant: the end of the quarantine that noteNew has logged
	list     atomic.Pointer[scripts.List] // nil while the name of a node is not known

	mu      sync.Mutex
	asked   []question // the next round answers them
	running bool
	// grants has the nodes whose first quarantine is over, which saidNew has told; saidOver: noteOver has
	// logged that.
	grants   map[int]bool
	saidOver bool
}

// question is a call that waits for a round.
type question struct {
	node   int // that must answer; everyNode for all
	answer func(*sight)
}

const everyNode = -1

func newMembers(c *core, founds, exists bool) *members {
	m := &members{core: c, founds: founds, exists: exists, letIn: make([]atomic.Int64, len(c.nodes)),
		keptOut: make([]atomic.Int64, len(c.nodes)), grants: map[int]bool{}}
	m.newUntil.Store(int64(clock.Never))
	for i := range m.letIn {
		m.letIn[i].Store(int64(clock.Never))
		m.keptOut[i].Store(int64(clock.Never))
	}
	return m
}

// proved records that a node let this locker in, by its reply to a request sent at sent.
func (m *members) proved(node int, sent clock.Instant) {
	if sent > clock.Instant(m.letIn[node].Load()) {
		m.letIn[node].Store(int64(sent))
	}
}

// noteKeptOut notes that a node does not let this locker in now.
func (m *members) noteKeptOut(node int) { m.keptOut[node].Store(int64(m.core.clock.Now())) }

// letsIn reports whether the node has let this locker in since it last kept it out.
func (m *members) letsIn(node int) bool { return m.keptOut[node].Load() <= m.letIn[node].Load() }

// resolve returns the list of masters, nil while it is not known: a node over a pool has no name
// until it is connected to.
func (m *members) resolve() *scripts.List {
	if list := m.list.Load(); list != nil {
		return list
	}
	names := make([]string, len(m.core.nodes))
	for i, n := range m.core.nodes {
		names[i] = n.Name()
		if names[i] == node.Unnamed || slices.Contains(names[:i], names[i]) {
			return nil
		}
	}
	m.list.CompareAndSwap(nil, scripts.NewList(names...))
	return m.list.Load()
}
