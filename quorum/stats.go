package quorum

import (
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
)

// Stats is a snapshot of a Locker and of those that [Locker.With] makes of it. Counts are since the
// Locker was made.
type Stats struct {
	Held int // locks that the Locker keeps on the nodes, also until the end of their min hold
	// Waiting counts the calls of Lock, RLock, Acquire and Do that have not acquired yet, also in their first attempt, unless
	// that is a reader's.
	Waiting int

	Attempts   map[string]uint64 // by outcome, as in [AttemptEvent]; 0 for one that has not occurred
	Released   uint64            // locks that were unlocked or handed over
	Lost       uint64
	WriteBacks uint64 // of a token to a node with a lower counter
	// Unannounced counts the releases that a node carried out but could not publish, because its user has no right
	// to: the waiters poll.
	Unannounced uint64

	Quorum int         // how many nodes make the lock
	Voters int         // nodes that can grant: their State is "up"
	Nodes  []NodeStats // in the Locker's order

	// EventsDropped counts the events for which no hook was called, because hooks were too slow.
	EventsDropped uint64
}

// NodeStats is a node's part in [Stats].
type NodeStats struct {
	Name string
	// State: see [node.Node.State]; or "not_accepted" for a node that answers, and when it was last asked was blank, or
	// accepted clients with another list. The next call asks again, and marks a blank one if it may.
	State     string
	LastError *node.Error // of a call, however long ago, or nil; its Code is a word for it

	// Renewals counts locks, not calls. A renewal failed when the node had forgotten the lock, had
	// given it to another, answered with an error, or did not answer.
	Renewals, RenewalsFailed uint64
	Repairs, RepairsFailed   uint64 // see [Hooks].Repaired
}

// Stats returns a snapshot. It asks the nodes nothing, and takes some microseconds; it can also be
// called after Close.
func (l *Locker) Stats() Stats {
	e, n := l.engine, l.meter
	s := Stats{
		Held: e.Held(), Waiting: l.room.waitlist.Len(), Attempts: make(map[string]uint64, engine.Kinds),
		Released: n.released.Load(), Lost: n.lost.Load(), WriteBacks: e.WriteBacks.Load(), Unannounced: e.Unannounced.Load(),
		Quorum: e.Quorum.Need, Nodes: make([]NodeStats, len(e.Nodes)), EventsDropped: n.events.Dropped(),
	}
	for k := range engine.Kind(engine.Kinds) {
		s.Attempts[k.String()] = n.attempts[k].Load()
	}
	for i, nd := range e.Nodes {
		of := &n.nodes[i]
		s.Nodes[i] = NodeStats{
			Name: nd.Name(), State: l.nodeState(i), LastError: nd.LastError(),
			Renewals: of.renewals.Load(), RenewalsFailed: of.renewalsFailed.Load(),
			Repairs: of.repairs.Load(), RepairsFailed: of.repairsFailed.Load(),
		}
		if s.Nodes[i].State == inside.Up {
			s.Voters++
		}
		s.EventsDropped += nd.EventsDropped()
	}
	return s
}

// nodeState returns the node's state: [inside.NotAccepted] for one that answers, but did not accept this locker
// when it was last asked.
func (l *Locker) nodeState(i int) string {
	state := l.engine.Nodes[i].State()
	if answers := state == inside.Up || state == inside.Quarantined; answers && !l.engine.Roster.Accepts(i) {
		return inside.NotAccepted
	}
	return state
}
