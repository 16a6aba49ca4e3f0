package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// coalesce bounds how much earlier than due a lock is renewed, to share a call with others.
	coalesce = 3 * time.Millisecond

	// Renewals that fall together are spread: at most one for each renewalGap, save for those of
	// one renewalBurst. So other calls wait behind few of them.
	renewalGap   = renewalBurst / batchSize
	renewalBurst = 2 * time.Millisecond

	// batchSize and batchBytes bound how much one call renews, and so for how long it keeps the
	// server busy. The names of one lock are not divided.
	batchSize  = 32       // locks
	batchBytes = 64 << 10 // of names, each with perName for its other arguments
	perName    = 128

	// A renewal that fell short is tried again after a twelfth of the lease, within these bounds.
	minRenewPause = 2 * time.Millisecond
	maxRenewPause = 500 * time.Millisecond
)

// planLocked sets when the schedule handles the hold next: a third of the lease after now for the
// next renewal, or at the deadline if that comes first or the lease is fixed.
func (h *hold) planLocked(now clock.Instant) {
	h.entry.At, h.entry.Early = h.deadline, 0
	if next := now.Add(h.set.lease / 3); !h.set.fixed && next.Before(h.deadline) {
		h.entry.At, h.entry.Early = next, min(coalesce, h.set.lease/30)
	}
	if end := h.minHoldEnd(); h.phase == lingering && end.Before(h.entry.At) {
		h.entry.At, h.entry.Early = end, 0
	}
}

// lingersLocked reports whether an unlocked hold stays on the nodes at now: its min hold is not
// over, and they keep it.
func (h *hold) lingersLocked(now clock.Instant) bool {
	return h.phase == lingering && now.Before(h.minHoldEnd()) && now.Before(h.deadline)
}

// postponeLocked reports whether too many renewals are due at now: then the schedule handles the
// hold later, but long before its deadline. A hold is postponed once for each renewal.
func (h *hold) postponeLocked(now clock.Instant) bool {
	e, c := &h.entry, h.core
	if h.postponed || h.set.fixed || h.phase != held {
		h.postponed = false
		return false
	}
	c.lastRenewal = max(c.lastRenewal, now).Add(renewalGap)
	if c.lastRenewal.Sub(now) <= renewalBurst {
		return false
	}
	e.At, e.Early, h.postponed = min(c.lastRenewal, now.Add(h.deadline.Sub(now)/4)), renewalBurst, true
	return true
}

// renewDue handles the holds that are due (schedule.Due): it ends those whose deadline has passed,
// releases those that were unlocked and whose min hold is over, and renews the others.
func (c *core) renewDue(now clock.Instant, due []*schedule.Entry[*hold]) (after func()) {
	// Contexts that must end come first: until they have, another owner may be granted the lock
	// beside this one.
	var lost, unlocked, kept []*hold
	for _, e := range due {
		h := e.Owner
		h.mu.Lock()
		switch {
		case h.phase == lingering && !h.lingersLocked(now):
			e.Over = true
			h.phase = released
			unlocked = append(unlocked, h)
		case !h.isKeptLocked():
			e.Over = true
		case h.phase == held && !now.Before(h.deadline):
			e.Over = true
			h.loseLocked(h.whyLostLocked(now))
			lost = append(lost, h)
		case h.postponeLocked(now):
		default:
			h.planLocked(now)
			kept = append(kept, h)
		}
		h.mu.Unlock()
	}
	for _, h := range unlocked {
		h.mu.Lock()
		h.abandonLocked(nil, noTally)
		h.mu.Unlock()
	}
	r := newRenewalRound(c, now)
	for _, h := range kept {
		h.mu.Lock()
		if h.isKeptLocked() && !h.set.fixed {
			r.addLocked(h)
		}
		h.mu.Unlock()
	}
	unsent := r.send()
	if len(kept) > 0 {
		c.introduction.Keep(now)
	}
	return func() {
		c.finishLost(lost...)
		for _, u := range unsent {
			u.batch.Done(pipeline.Result{Err: u.err})
		}
	}
}

// renewalRound gathers the renewals that fall together into batches: as few calls as their bounds
// allow for each connection.
type renewalRound struct {
	core    *core
	sent    clock.Instant                    // read before anything is sent
	open    map[*pipeline.Pipe]*renewalBatch // the batch to add to, by connection
	batches []*renewalBatch                  // in the order in which they are sent
}

// renewalBatch is the locks that one call renews on one node. It receives the reply.
type renewalBatch struct {
	core  *core
	pipe  *pipeline.Pipe
	sent  clock.Instant
	votes []*vote
	locks []scripts.Renewal
	bytes int
}

func newRenewalRound(c *core, now clock.Instant) *renewalRound {
	return &renewalRound{core: c, sent: now, open: map[*pipeline.Pipe]*renewalBatch{}}
}

// addLocked adds the hold's renewal to a batch for every node that keeps it. It sends a repair at
// once to each node that does not: a node that forgot the lock grants it to the same owner with the
// same token, unless the node is in quarantine or another owner is there. It leaves out nodes that
// have not answered yet, so that requests to a slow node do not pile up.
func (r *renewalRound) addLocked(h *hold) {
	h.renewedAt = r.sent
	h.noteRenewingLocked(r.sent)
	bytes := 0
	for _, name := range h.names {
		bytes += len(name.String()) + perName
	}
	for i := range h.votes {
		v := &h.votes[i]
		switch {
		case v.busy:
		case v.until == clock.Never:
			v.repairLocked(h.deadlineFor(r.sent))
		default:
			v.busy = true
			b := r.batchFor(v, bytes)
			b.votes, b.bytes = append(b.votes, v), b.bytes+bytes
			b.locks = append(b.locks,
				scripts.Renewal{Names: h.names, Owner: h.owner, Token: h.token, Lease: h.set.leaseMillis})
		}
	}
}

// batchFor returns the batch for a vote whose names have that many bytes.
func (r *renewalRound) batchFor(v *vote, bytes int) *renewalBatch {
	pipe := v.hold.pipe(v.node)
	if b := r.open[pipe]; b != nil && len(b.votes) < batchSize && b.bytes+bytes <= batchBytes && !v.alone {
		return b
	}
	b := &renewalBatch{core: r.core, pipe: pipe, sent: r.sent}
	r.batches = append(r.batches, b)
	if !v.alone {
		r.open[pipe] = b
	}
	return b
}

// unsent is a batch that a pipe refused.
type unsent struct {
	batch *renewalBatch
	err   error
}

func (r *renewalRound) send() (failed []unsent) {
	for _, b := range r.batches {
		if err := b.pipe.Start(scripts.Renew(b.votes[0].hold.list, b.locks), nil, b); err != nil {
			failed = append(failed, unsent{b, err})
		}
	}
	return failed
}

// Done receives a node's reply to the batch.
func (b *renewalBatch) Done(r pipeline.Result) {
	if len(b.votes) > 1 && r.RefusesKeys {
		for i := range b.votes {
			b.renewAlone(i)
		}
		return
	}
	b.noteReply(r)
	switch refusal := r.Reply.NotLetIn; {
	case refusal != nil: // also where no lock of the batch is left there
		b.core.roster.RenewalRefused(b.votes[0].node, refusal)
	case r.Err == nil:
		b.core.roster.NoteAccepted(b.votes[0].node, b.sent)
	}
	for i, v := range b.votes {
		v.hold.update(func() {
			v.busy = false
			if r.Err != nil {
				v.err = r.Err
				return
			}
			v.alone = false
			v.renewedLocked(r, i, v.hold.deadlineFor(b.sent))
		})
	}
}

// renewAlone renews one lock of a batch that the server refused. The refusal may concern the key of
// another lock only.
func (b *renewalBatch) renewAlone(i int) {
	v := b.votes[i]
	one := &renewalBatch{
		core: b.core, pipe: b.pipe, votes: b.votes[i : i+1 : i+1], locks: b.locks[i : i+1 : i+1],
	}
	if err := one.startAlone(v); err != nil {
		one.Done(pipeline.Result{Err: err})
	}
}

func (b *renewalBatch) startAlone(v *vote) error {
	v.hold.mu.Lock()
	defer v.hold.mu.Unlock()
	if !v.hold.isKeptLocked() { // no renewal follows the release
		v.busy = false
		return nil
	}
	v.alone = true
	b.sent = b.core.clock.Now()
	return b.pipe.Start(scripts.Renew(b.votes[0].hold.list, b.locks), nil, b)
}

// repairLocked asks a node that does not keep the lock for the grant again, until then.
func (v *vote) repairLocked(until clock.Instant) {
	h := v.hold
	v.forgot = false
	call := h.acquireAgain(h.level, h.set.leaseMillis)
	if err := h.pipe(v.node).Start(call, &v.claim, &repairReply{v, call, until}); err != nil {
		v.err = err
		return
	}
	v.busy, v.sent = true, true
}

// repairReply receives a node's reply to a repair.
type repairReply struct {
	vote  *vote
	call  scripts.Call
	until clock.Instant // how long a grant lasts
}

func (a *repairReply) Done(r pipeline.Result) {
	v := a.vote
	if r.Reply.Acquire.Refusal != nil && v.hold.refusedByList(v, &r, a.call, a) {
		return
	}
	var err error
	v.hold.update(func() {
		v.busy = false
		v.regrantedLocked(r, a.until)
		err = v.err
	})
	v.noteRepair(err)
}

// update applies one node's answer to the hold. It ends the hold when too few nodes are left, and
// has the schedule try again soon when the renewal fell short.
func (h *hold) update(apply func()) {
	c := h.core
	hastenTo, lost := h.applyAnswer(apply)
	if lost {
		c.finishLost(h)
	} else if hastenTo != clock.Never {
		c.schedule.Hasten(&h.entry, hastenTo)
	}
}

// applyAnswer returns when the schedule must handle the hold at the latest; Never when the answer
// has not changed that.
func (h *hold) applyAnswer(apply func()) (hastenTo clock.Instant, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.deadline
	apply()
	if !h.isKeptLocked() {
		return clock.Never, false
	}
	now := h.core.clock.Now()
	if h.phase == held && !now.Before(h.deadline) {
		h.loseLocked(h.whyLostLocked(now))
		return clock.Never, true
	}
	if h.deadline.Before(before) {
		hastenTo = h.deadline
	} else {
		hastenTo = clock.Never
	}
	if !h.set.fixed && h.fellShortLocked() {
		soon := now.Add(min(max(h.set.lease/12, minRenewPause), maxRenewPause))
		if hastenTo == clock.Never || soon.Before(hastenTo) {
			hastenTo = soon
		}
	}
	return hastenTo, false
}

// fellShortLocked reports whether a node should be repaired soon, or all nodes have answered the
// last renewals and too few have confirmed.
func (h *hold) fellShortLocked() bool {
	open := false
	for i := range h.votes {
		if h.votes[i].forgot {
			return true
		}
		open = open || h.votes[i].busy
	}
	goal := h.deadlineFor(h.renewedAt)
	if h.maxHoldEnd != clock.Never {
		goal = min(goal, h.maxHoldEnd)
	}
	return !open && h.deadline.Before(goal)
}
