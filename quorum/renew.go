package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// coalesce bounds how much earlier than due a lock is renewed, to travel with others.
	coalesce = 10 * time.Millisecond

	// batchSize and batchBytes bound how much one call renews, and so how long it keeps the server from others. A lock is not
	// divided.
	batchSize  = 128      // locks
	batchBytes = 64 << 10 // of names, counting perName for what comes with each
	perName    = 128
)

// planLocked sets when a hold that has just been seen to is due again: a third of its lease later, or at its deadline.
func (h *hold) planLocked(now clock.Instant) {
	h.entry.at, h.entry.early = h.deadline, 0
	if next := now.Add(h.set.lease / 3); !h.set.fixed && next.Before(h.deadline) {
		h.entry.at, h.entry.early = next, min(coalesce, h.set.lease/30)
	}
}

// renewDue sees to holds that are due (schedule.due): it ends those whose deadline has passed, and renews the others.
func (c *core) renewDue(now clock.Instant, due []*entry) (after func()) {
	// Contexts that must end come first: all that is done before them is time in which another may be granted.
	var lost, kept []*hold
	for _, e := range due {
		h := e.owner.(*hold)
		h.mu.Lock()
		switch {
		case h.phase != held:
			e.over = true
		case !now.Before(h.deadline):
			e.over = true
			h.loseLocked(h.whyLostLocked(now))
			lost = append(lost, h)
		default:
			h.planLocked(now)
			kept = append(kept, h)
		}
		h.mu.Unlock()
	}
	r := newRenewalRound(c, now)
	for _, h := range kept {
		h.mu.Lock()
		if h.phase == held && !h.set.fixed {
			r.addLocked(h)
		}
		h.mu.Unlock()
	}
	unsent := r.send()
	return func() {
		c.finishLost(lost...)
		for _, u := range unsent {
			u.batch.Done(pipeline.Result{Err: u.err})
		}
	}
}

// renewalRound gathers the locks whose renewals fall together into one call for each connection.
type renewalRound struct {
	core    *core
	sent    clock.Instant                    // read before anything is sent
	open    map[*pipeline.Pipe]*renewalBatch // that have room
	batches []*renewalBatch                  // in the order in which they were begun
}

// renewalBatch is the locks that one call renews on one node. It takes the answer.
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

// addLocked adds a hold's renewal on every node that keeps it. Of the others it asks, at once, for the grant again ("repair"):
// a node that has forgotten the lock grants it to the same owner with the same token, if it is admitted and no other owner is there.
// Nodes that have not answered the last time are left out: nothing piles up for them.
func (r *renewalRound) addLocked(h *hold) {
	h.renewedAt = r.sent
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
			b.locks = append(b.locks, scripts.Renewal{Names: h.names, Owner: h.owner, Token: h.token, Lease: h.set.leaseMillis})
		}
	}
}

// batchFor returns the batch with which a vote travels.
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

// unsent is a batch that a pipe did not take.
type unsent struct {
	batch *renewalBatch
	err   error
}

func (r *renewalRound) send() (failed []unsent) {
	for _, b := range r.batches {
		if err := b.pipe.Start(scripts.Renew(b.locks), nil, b); err != nil {
			failed = append(failed, unsent{b, err})
		}
	}
	return failed
}

// Done takes a node's answer to a batch.
func (b *renewalBatch) Done(r pipeline.Result) {
	if len(b.votes) > 1 && r.RefusesKeys {
		for i := range b.votes {
			b.renewAlone(i)
		}
		return
	}
	for i, v := range b.votes {
		v.hold.update(func() {
			v.busy = false
			if r.Err != nil {
				v.err = r.Err
				return
			}
			v.alone = false
			v.renewedLocked(r.Reply.Renew[i], r.RunID, v.hold.deadlineFor(b.sent))
		})
	}
}

// renewAlone renews at once one lock of a batch that the server refused: perhaps for one key, and that of another lock.
func (b *renewalBatch) renewAlone(i int) {
	v := b.votes[i]
	one := &renewalBatch{core: b.core, pipe: b.pipe, votes: b.votes[i : i+1 : i+1], locks: b.locks[i : i+1 : i+1]}
	if err := one.startAlone(v); err != nil {
		one.Done(pipeline.Result{Err: err})
	}
}

func (b *renewalBatch) startAlone(v *vote) error {
	v.hold.mu.Lock()
	defer v.hold.mu.Unlock()
	if v.hold.phase != held { // nothing is sent after its release
		v.busy = false
		return nil
	}
	v.alone = true
	b.sent = b.core.clock.Now()
	return b.pipe.Start(scripts.Renew(b.locks), nil, b)
}

// repairLocked asks a node that does not keep the lock for the grant again.
func (v *vote) repairLocked(until clock.Instant) {
	h := v.hold
	v.forgot = false
	if err := h.pipe(v.node).Start(h.acquireAgain(h.level, h.set.leaseMillis), &v.claim, &repairReply{v, until}); err != nil {
		v.err = err
		return
	}
	v.busy, v.sent = true, true
}

// repairReply takes a node's answer to a repair.
type repairReply struct {
	vote  *vote
	until clock.Instant // how long the node keeps what it is asked for
}

func (a *repairReply) Done(r pipeline.Result) {
	v := a.vote
	v.hold.update(func() {
		v.busy = false
		v.regrantedLocked(r, a.until)
	})
}

// update applies one node's answer to a hold that is held, ends the hold if that leaves too few nodes, and sees that renewals that
// fell short are tried again soon.
func (h *hold) update(apply func()) {
	c := h.core
	hastenTo, lost := h.applyAnswer(apply)
	if lost {
		c.finishLost(h)
	} else if hastenTo != clock.Never {
		c.schedule.hasten(&h.entry, hastenTo)
	}
}

// applyAnswer returns when the hold must be seen to at the latest, Never when nothing has changed that.
func (h *hold) applyAnswer(apply func()) (hastenTo clock.Instant, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.deadline
	apply()
	if h.phase != held {
		return clock.Never, false
	}
	now := h.core.clock.Now()
	if !now.Before(h.deadline) {
		h.loseLocked(h.whyLostLocked(now))
		return clock.Never, true
	}
	if h.deadline.Before(before) {
		hastenTo = h.deadline
	} else {
		hastenTo = clock.Never
	}
	if !h.set.fixed && h.fellShortLocked() {
		soon := now.Add(min(max(h.set.lease/12, 2*time.Millisecond), 500*time.Millisecond))
		if hastenTo == clock.Never || soon.Before(hastenTo) {
			hastenTo = soon
		}
	}
	return hastenTo, false
}

// fellShortLocked tells that a node has forgotten the lock and may be repaired, or that all have answered the last renewals and
// too few confirmed them.
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
