package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
)

// meter counts what Lockers do for [Stats], and runs their hooks.
type meter struct {
	attempts       [engine.Kinds]atomic.Uint64
	released, lost atomic.Uint64
	nodes          [quorate.MaxNodes]nodeMeter
	events         events.Queue // hooks that are to run
}

// nodeMeter counts for one node.
type nodeMeter struct {
	renewals, renewalsFailed atomic.Uint64
	repairs, repairsFailed   atomic.Uint64
}

// observer is a Locker as it makes hooks, logs and counts of what happens to its holds.
type observer Locker

var _ engine.Events = (*observer)(nil)

// ends has the errors of the causes by which no lock is lost.
var ends = [lease.Causes]error{lease.Unlocked: ErrReleased, lease.HandedOver: ErrHandedOver, lease.Closed: ErrClosed}

func (o *observer) Ending(h *engine.Hold, why engine.Ending) error {
	if end := ends[why.Cause]; end != nil {
		return end
	}
	if why.Cause == lease.Stopping {
		e := lockOf(h).keptError("hold", why.Keepers, ErrLost, o.whyStopping(why.ByMaxHold))
		e.Quorum, e.Granted, e.Unknown = 0, 0, 0 // it is kept
		return e
	}
	o.meter.lost.Add(1)
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

// losses has the other causes' explanations of a loss.
var losses = [lease.Causes]detail{lease.NotKept: "too few nodes keep it", lease.LeaseOver: "its lease is over",
	lease.NotConfirmed: "too few nodes confirmed a renewal in time", lease.DeadlineFound: "the deadline has passed"}

// whyLost explains why a lock was lost.
func (o *observer) whyLost(why lease.Cause) detail {
	if why == lease.MaxHoldOver {
		return detail(fmt.Sprintf("its max hold of %v is over", o.set.terms.MaxHold))
	}
	return losses[why]
}

func (o *observer) Lost(h *engine.Hold, why error) {
	l := lockOf(h)
	o.set.log().Warn("quorumlock: lock lost", "names", l.target.Names, "owner", l.Owner(), "token", l.Token(), "error", why)
	if hook := o.set.hooks.Lost; hook != nil {
		hook(l, why)
	}
}

func (o *observer) Renewing(h *engine.Hold, left time.Duration) {
	if hook := o.set.hooks.Renewing; hook != nil {
		o.meter.events.Post(func() { hook(lockOf(h), left, o.set.terms.Lease) })
	}
}

func (o *observer) Renewed(node int, r engine.Renewals) {
	n := &o.meter.nodes[node]
	n.renewals.Add(uint64(r.Renewed))
	n.renewalsFailed.Add(uint64(r.Forgotten + r.Taken + r.Failed))
	if hook := o.set.hooks.Renewed; hook != nil {
		e := RenewalEvent{Node: o.engine.Nodes[node].Name(), Renewed: r.Renewed, Forgotten: r.Forgotten, Taken: r.Taken,
			Failed: r.Failed, Err: r.Err}
		o.meter.events.Post(func() { hook(e) })
	}
}

func (o *observer) Repaired(h *engine.Hold, node int, err error) {
	n := &o.meter.nodes[node]
	if err == nil {
		n.repairs.Add(1)
	} else {
		n.repairsFailed.Add(1)
	}
	if hook := o.set.hooks.Repaired; hook != nil {
		e := RepairEvent{Node: o.engine.Nodes[node].Name(), Lock: lockOf(h), Err: err}
		o.meter.events.Post(func() { hook(e) })
	}
}

// observation is what one call of Lock reports to its hooks. It is nil for a call without such hooks, which then
// reads no clock for them.
type observation struct {
	clock    clock.Clock
	hooks    *Hooks
	ctx      context.Context // that LockStart has returned
	names    []string
	began    clock.Instant // the call
	asking   clock.Instant // the attempt
	attempts int
}

// observe begins a call of Lock.
func (l *Locker) observe(ctx context.Context, names []string) *observation {
	h := &l.set.hooks
	if h.LockStart == nil && h.Attempt == nil && h.LockEnd == nil {
		return nil
	}
	on := l.engine.Clock
	o := &observation{clock: on, hooks: h, ctx: ctx, names: slices.Clone(names), began: on.Now()}
	if h.LockStart != nil {
		o.ctx = h.LockStart(ctx, o.names)
	}
	return o
}

// attempting notes that an attempt begins.
func (o *observation) attempting() {
	if o != nil {
		o.attempts++
		o.asking = o.clock.Now()
	}
}

// attempted calls the hook for an attempt. If it panics, the lock is released: the call
// does not return it.
func (o *observation) attempted(c *call, r queue.Result) {
	if o == nil || o.hooks.Attempt == nil {
		return
	}
	of := r.Answers()
	e := AttemptEvent{
		Names: o.names, Outcome: r.Kind.String(), WriteBacks: r.WriteBacks, Probed: r.Approach.Probes(),
		Granted: of[lease.Granted].Len(), Refused: of[lease.Refused].Len(), Quarantined: of[lease.Quarantined].Len(),
		Unknown:  r.Unknown(),
		Duration: o.clock.Now().Sub(o.asking),
	}
	if r.Acquired {
		e.Slots = c.lock.target.Slots
	} else {
		e.Err, e.Slots = c.err.clone(), c.err.slots // the hook may keep it, and the call adds to its own
	}
	c.lock.guard(func() { o.hooks.Attempt(o.ctx, e) })
}

// ended calls the hook for the end of a call.
func (o *observation) ended(lock *Lock, err error) {
	if o == nil || o.hooks.LockEnd == nil {
		return
	}
	e := LockEvent{
		Names: o.names, Outcome: engine.Acquired.String(), Lock: lock, Err: err, Attempts: o.attempts,
		Duration: o.clock.Now().Sub(o.began),
	}
	if failed, ok := err.(*Error); ok {
		e.Outcome = failed.kind.String()
	}
	o.hooks.LockEnd(o.ctx, e)
}
