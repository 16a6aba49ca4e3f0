package quorum

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// observation is what one call of Lock reports to its hooks. It is nil for a call without such
// hooks, which reads no clock for them.
type observation struct {
	core     *core
	hooks    *Hooks
	ctx      context.Context // that LockStart has returned
	names    []string
	began    clock.Instant // the call
	asking   clock.Instant // the attempt
	attempts int
}

// observe begins a call of Lock.
func (c *core) observe(ctx context.Context, set *settings, names []string) *observation {
	h := &set.hooks
	if h.LockStart == nil && h.Attempt == nil && h.LockEnd == nil {
		return nil
	}
	o := &observation{core: c, hooks: h, ctx: ctx, names: slices.Clone(names), began: c.clock.Now()}
	if h.LockStart != nil {
		o.ctx = h.LockStart(ctx, o.names)
	}
	return o
}

// attempting notes that an attempt begins.
func (o *observation) attempting() {
	if o != nil {
		o.attempts++
		o.asking = o.core.clock.Now()
	}
}

// attempted calls the hook for an attempt. If it panics, the lock is released: the call
// does not return it.
func (o *observation) attempted(lock *Lock, r *attemptResult) {
	if o == nil || o.hooks.Attempt == nil {
		return
	}
	e := AttemptEvent{
		Names: o.names, Outcome: outcomeAcquired.String(), WriteBacks: r.writeBacks, Probed: r.approach.Probes(),
		Granted: r.of[lease.Granted], Refused: r.of[lease.Refused], Quarantined: r.of[lease.Quarantined],
		Unknown:  r.of[lease.Failed] + r.of[lease.Unanswered] + r.of[lease.Unasked],
		Duration: o.core.clock.Now().Sub(o.asking),
	}
	if r.err != nil {
		e.Outcome, e.Err, e.Slots = outcomeOf(r.err).String(), r.err, r.err.slots
	} else {
		e.Slots = lock.slots
	}
	returned := false
	defer lock.releaseUnless(&returned)
	o.hooks.Attempt(o.ctx, e)
	returned = true
}

// ended calls the hook for the end of a call.
func (o *observation) ended(lock *Lock, err error) {
	if o == nil || o.hooks.LockEnd == nil {
		return
	}
	e := LockEvent{
		Names: o.names, Outcome: outcomeAcquired.String(), Lock: lock, Err: err, Attempts: o.attempts,
		Duration: o.core.clock.Now().Sub(o.began),
	}
	if failed, ok := err.(*Error); ok {
		e.Outcome = outcomeOf(failed).String()
	}
	o.hooks.LockEnd(o.ctx, e)
}

// noteRenewingLocked calls the hook for a lock whose renewals go out.
func (h *hold) noteRenewingLocked(sent clock.Instant) {
	if hook := h.set.hooks.Renewing; hook != nil {
		l, left, lease := &h.first, h.lease.Deadline().Sub(sent), h.set.lease
		h.core.events.Post(func() { hook(l, left, lease) })
	}
}

// noteReply counts the node's reply to the batch, and calls the hooks of the Lockers whose locks
// are in it.
func (b *renewalBatch) noteReply(r pipeline.Result) {
	told := make([]renewalOf, 0, 1)
	all := RenewalEvent{}
	for i, v := range b.members {
		all.add(r, i)
		if v.hold.set.hooks.Renewed == nil {
			continue
		}
		at := slices.IndexFunc(told, func(t renewalOf) bool { return t.set == v.hold.set })
		if at < 0 {
			at = len(told)
			told = append(told, renewalOf{v.hold.set, RenewalEvent{Node: b.core.nodes[v.node].Name(), Err: r.Err}})
		}
		told[at].event.add(r, i)
	}
	n := &b.core.counters.nodes[b.members[0].node]
	n.renewals.Add(uint64(all.Renewed))
	if failed := all.Forgotten + all.Taken + all.Failed; failed > 0 {
		n.renewalsFailed.Add(uint64(failed))
	}
	for _, t := range told {
		b.core.events.Post(func() { t.set.hooks.Renewed(t.event) })
	}
}

// renewalOf is what a batch reports to the hooks of one Locker.
type renewalOf struct {
	set   *settings
	event RenewalEvent
}

// add counts the answer for the i-th lock of a batch.
func (e *RenewalEvent) add(r pipeline.Result, i int) {
	switch {
	case r.Err != nil:
		e.Failed++
	case r.Reply.Renew[i] == scripts.Kept:
		e.Renewed++
	case r.Reply.Renew[i] == scripts.Gone:
		e.Forgotten++
	case r.Reply.Renew[i] == scripts.Taken:
		e.Taken++
	default:
		e.Failed++
	}
}

// noteRepair counts a node's reply to a repair, and calls the hook.
func (h *hold) noteRepair(node int, err error) {
	n := &h.core.counters.nodes[node]
	if err == nil {
		n.repairs.Add(1)
	} else {
		n.repairsFailed.Add(1)
	}
	if hook := h.set.hooks.Repaired; hook != nil {
		e := RepairEvent{Node: h.core.nodes[node].Name(), Lock: &h.first, Err: err}
		h.core.events.Post(func() { hook(e) })
	}
}
