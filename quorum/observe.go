package quorum

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// observer makes hooks, logs and counters of what happens to the holds of a Locker.
type observer struct {
	core *core
	set  *settings
}

var _ engine.Events = (*observer)(nil)

func (o *observer) Ending(h *engine.Hold, why engine.Ending) error {
	switch why.Cause {
	case lease.Unlocked:
		return ErrReleased
	case lease.HandedOver:
		return ErrHandedOver
	case lease.Closed:
		return ErrClosed
	case lease.Stopping:
		e := lockOf(h).keptError("hold", why.Keepers, ErrLost, o.whyStopping(why.ByMaxHold))
		e.Need, e.Granted, e.Unknown = 0, 0, 0 // it is kept
		return e
	}
	o.core.counters.lost.Add(1)
	return lockOf(h).keptError("hold", why.Keepers, ErrLost, o.whyLost(why.Cause))
}

// whyStopping explains why a lock's contexts end before the lock does.
func (o *observer) whyStopping(byMaxHold bool) detail {
	t, what := &o.set.terms, "not renewed in time"
	switch {
	case byMaxHold:
		what = fmt.Sprintf("its max hold of %v ends", t.MaxHold)
	case t.Fixed:
		what = fmt.Sprintf("its fixed lease of %v ends", t.Lease)
	}
	return detail(fmt.Sprintf("%s: contexts canceled %v before the deadline; still held until then", what, t.StopBefore))
}

// whyLost explains why a lock was lost.
func (o *observer) whyLost(why lease.Cause) detail {
	switch why {
	case lease.MaxHoldOver:
		return detail(fmt.Sprintf("its max hold of %v is over", o.set.terms.MaxHold))
	case lease.NotKept:
		return "too few nodes keep it"
	case lease.LeaseOver:
		return "its lease is over"
	case lease.NotConfirmed:
		return "too few nodes confirmed a renewal in time"
	case lease.DeadlineFound:
		return "the deadline has passed"
	}
	return "it ended"
}

func (o *observer) Lost(h *engine.Hold, why error) {
	l := lockOf(h)
	o.set.log().Warn("quorumlock: lock lost", "names", l.names, "owner", l.Owner(), "token", l.Token(), "error", why)
	if hook := o.set.hooks.Lost; hook != nil {
		hook(l, why)
	}
}

func (o *observer) Renewing(h *engine.Hold, left time.Duration) {
	if hook := o.set.hooks.Renewing; hook != nil {
		o.core.events.Post(func() { hook(lockOf(h), left, o.set.terms.Lease) })
	}
}

func (o *observer) Renewed(node int, r engine.Renewals) {
	n := &o.core.counters.nodes[node]
	n.renewals.Add(uint64(r.Renewed))
	if failed := r.Forgotten + r.Taken + r.Failed; failed > 0 {
		n.renewalsFailed.Add(uint64(failed))
	}
	if hook := o.set.hooks.Renewed; hook != nil {
		e := RenewalEvent{Node: o.core.Nodes[node].Name(), Renewed: r.Renewed, Forgotten: r.Forgotten, Taken: r.Taken,
			Failed: r.Failed, Err: r.Err}
		o.core.events.Post(func() { hook(e) })
	}
}

func (o *observer) Repaired(h *engine.Hold, node int, err error) {
	n := &o.core.counters.nodes[node]
	if err == nil {
		n.repairs.Add(1)
	} else {
		n.repairsFailed.Add(1)
	}
	if hook := o.set.hooks.Repaired; hook != nil {
		e := RepairEvent{Node: o.core.Nodes[node].Name(), Lock: lockOf(h), Err: err}
		o.core.events.Post(func() { hook(e) })
	}
}

func (o *observer) WroteBack(nodes int) { o.core.counters.writeBacks.Add(uint64(nodes)) }
func (o *observer) Unannounced()        { o.core.counters.unannounced.Add(1) }

// Stats is a snapshot of a Locker and of those that [Locker.With] makes of it. Counts are since the
// Locker was made.
type Stats struct {
	Held    int // locks that the Locker keeps on the nodes, also until the end of their min hold
	Waiting int // calls of Lock and Do that have not acquired the lock yet, the first attempt included

	Attempts   map[string]uint64 // by outcome, as in [AttemptEvent]; 0 for one that has not occurred
	Released   uint64            // locks that were unlocked or handed over
	Lost       uint64
	WriteBacks uint64 // of a token to a node with a lower counter
	// Unannounced counts the releases that a node carried out but could not publish, because its user has no right
	// to: the waiters poll.
	Unannounced uint64

	Quorum int         // how many nodes make the lock
	Voters int         // nodes that are up, so that they can grant
	Nodes  []NodeStats // in the Locker's order

	// EventsDropped counts the events for which no hook was called, because hooks were too slow.
	EventsDropped uint64
}

// NodeStats is a node's part in [Stats].
type NodeStats struct {
	Name      string
	State     string      // see [node.Node.State]; "not_accepted" for a node that answers, and accepts clients with another list
	LastError *node.Error // of a call, however long ago, or nil; Kind is a word for it

	// Renewals counts locks, not calls. A renewal failed when the node had forgotten the lock, had
	// given it to another, answered with an error, or did not answer.
	Renewals, RenewalsFailed uint64
	Repairs, RepairsFailed   uint64 // see [Hooks].Repaired
}

// Stats returns a snapshot. It asks the nodes nothing, and takes some microseconds; it can also be
// called after Close.
func (l *Locker) Stats() Stats {
	c := l.core
	n := &c.counters
	s := Stats{
		Held: c.Held(), Waiting: l.core.waitlist.Len(), Attempts: make(map[string]uint64, outcomes),
		Released: n.released.Load(), Lost: n.lost.Load(), WriteBacks: n.writeBacks.Load(), Unannounced: n.unannounced.Load(),
		Quorum: c.Need, Nodes: make([]NodeStats, len(c.Nodes)), EventsDropped: c.events.Dropped(),
	}
	for o := range outcome(outcomes) {
		s.Attempts[o.String()] = n.attempts[o].Load()
	}
	for i, nd := range c.Nodes {
		of := &n.nodes[i]
		s.Nodes[i] = NodeStats{
			Name: nd.Name(), State: c.nodeState(i), LastError: nd.LastError(),
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
func (c *core) nodeState(i int) string {
	state := c.Nodes[i].State()
	if answers := state == inside.Up || state == inside.Quarantined; answers && !c.Roster.Accepts(i) {
		return inside.NotAccepted
	}
	return state
}
