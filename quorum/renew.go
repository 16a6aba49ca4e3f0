package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// batchSize and batchBytes bound how much one call renews, and so how long it keeps the server from others. A lock is not divided.
const (
	batchSize  = 128      // locks
	batchBytes = 64 << 10 // of names, counting perName for what comes with each
	perName    = 128
)

var lossWords = map[scripts.Renewed]error{
	scripts.Gone:  errors.New("the node had forgotten the lock"),
	scripts.Taken: errors.New("the node had given the lock to another"),
}

// renewal gathers the locks whose renewals fall together into one call for each connection.
type renewal struct {
	core    *core
	sent    clock.Instant             // read before anything is sent
	batches map[*pipeline.Pipe]*batch // that have room
	all     []*batch                  // in the order in which they were begun
}

// batch is the locks that one call renews on one node. It hears the answer.
type batch struct {
	core  *core
	node  int
	pipe  *pipeline.Pipe
	sent  clock.Instant
	votes []*vote
	locks []scripts.Renewal
	bytes int
}

func newRenewal(c *core, now clock.Instant) *renewal {
	return &renewal{core: c, sent: now, batches: map[*pipeline.Pipe]*batch{}}
}

// planLocked adds a hold's renewal on every node that keeps it. On the others it asks, at once, for the grant again ("repair"):
// a node that has forgotten the lock grants it to the same owner with the same token, if it is admitted and nobody else is there.
// Nodes that have not answered the last time are left out: nothing piles up for them.
func (r *renewal) planLocked(h *hold) {
	h.begun = r.sent
	until := clock.Deadline(r.sent, h.set.lease, h.set.drift)
	bytes := 0
	for _, name := range h.names {
		bytes += len(name.String()) + perName
	}
	var repair scripts.Call
	for i, n := range r.core.nodes {
		v := &h.votes[i]
		if v.busy {
			continue
		}
		if v.until == clock.Never {
			if !repair.IsAcquire() {
				repair = h.acquireAgainLocked(h.level, h.set.leaseMillis)
			}
			v.forgot = false
			if err := n.Pipe(h.lane()).Start(repair, &v.claim, &repairing{v, until}); err != nil {
				v.err = err
			} else {
				v.busy, v.asked = true, true
			}
			continue
		}
		v.busy = true
		pipe := n.Pipe(h.lane())
		b := r.batches[pipe]
		if b == nil || len(b.votes) == batchSize || b.bytes+bytes > batchBytes || v.alone {
			b = &batch{core: r.core, node: i, pipe: pipe, sent: r.sent}
			r.all = append(r.all, b)
			if !v.alone {
				r.batches[pipe] = b
			}
		}
		b.votes, b.bytes = append(b.votes, v), b.bytes+bytes
		b.locks = append(b.locks, scripts.Renewal{Names: h.names, Owner: h.owner, Token: h.token, Lease: h.set.leaseMillis})
	}
}

// acquireAgainLocked is the call by which a holder asks for its own lock: to enter again, or to repair.
func (h *hold) acquireAgainLocked(level int, lease scripts.Millis) scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: level, Lease: lease, MaxLease: h.core.maxLeaseMillis, Token: h.token,
	})
}

// send puts the batches into the pipelines. It returns what is to be done about those that nodes refused, once the schedule is
// unlocked.
func (r *renewal) send() (refused []func()) {
	for _, b := range r.all {
		if err := b.pipe.Start(scripts.Renew(b.locks), nil, b); err != nil {
			refused = append(refused, func() { b.Done(pipeline.Result{Err: err}) })
		}
	}
	return refused
}

// Done takes a node's answer to a batch.
func (b *batch) Done(r pipeline.Result) {
	if len(b.votes) > 1 && r.RefusesKeys {
		for i := range b.votes {
			b.renewAlone(i)
		}
		return
	}
	for i, v := range b.votes {
		until := clock.Deadline(b.sent, v.hold.set.lease, v.hold.set.drift)
		if r.Err != nil {
			v.hold.hear(v, func() { v.busy, v.err = false, r.Err })
			continue
		}
		v.hold.hear(v, func() {
			v.busy = false
			v.alone = false
			v.renewedLocked(r.Reply.Renew[i], r.RunID, until)
		})
	}
}

// renewAlone asks again, at once, for one lock of a batch that the server refused: perhaps for one key, and that of another lock.
func (b *batch) renewAlone(i int) {
	v := b.votes[i]
	h := v.hold
	one := &batch{core: b.core, node: b.node, pipe: b.pipe, votes: b.votes[i : i+1 : i+1], locks: b.locks[i : i+1 : i+1]}
	h.mu.Lock()
	if h.phase != held { // nothing is sent after its release
		v.busy = false
		h.mu.Unlock()
		return
	}
	v.alone = true
	one.sent = b.core.clock.Now()
	err := one.pipe.Start(scripts.Renew(one.locks), nil, one)
	h.mu.Unlock()
	if err != nil {
		one.Done(pipeline.Result{Err: err})
	}
}

// renewedLocked takes what a node says of a grant that was to be renewed.
func (v *vote) renewedLocked(said scripts.Renewed, runID string, until clock.Instant) {
	if said == scripts.Kept {
		v.err = v.hold.confirmLocked(v, runID, until)
		return
	}
	v.hold.denyLocked(v)
	v.err = v.hold.core.blame(v.node, "renew", lossWords[said])
}

// repairing hears a node's answer to a repair.
type repairing struct {
	vote  *vote
	until clock.Instant // how long the node keeps what it is asked for
}

func (a *repairing) Done(r pipeline.Result) {
	v := a.vote
	v.hold.hear(v, func() {
		v.busy = false
		v.regrantedLocked(r, a.until)
	})
}

// regrantedLocked takes a node's answer to a holder that asked for its own lock again, until then.
func (v *vote) regrantedLocked(r pipeline.Result, until clock.Instant) answer {
	h := v.hold
	said, err := h.readGrant(v, r)
	switch said {
	case granted:
		if err = h.confirmLocked(v, r.RunID, until); err != nil {
			said = failure
		}
	case refused:
		h.denyLocked(v)
		v.forgot = true // perhaps by an attempt that fails: it is worth asking again soon
		err = h.core.blame(v.node, "acquire", lossWords[scripts.Taken])
	case quarantined:
		h.denyLocked(v)
		v.forgot = false
		err = h.core.blame(v.node, "acquire", ErrQuarantined)
	}
	v.err = err
	return said
}

// hear applies one node's answer to a hold that is held, ends the hold if that leaves too few nodes, and sees that a round that
// fell short is tried again soon.
func (h *hold) hear(v *vote, apply func()) {
	h.mu.Lock()
	before := h.until
	apply()
	if h.phase != held {
		h.mu.Unlock()
		return
	}
	now := h.core.clock.Now()
	if !now.Before(h.until) {
		h.loseLocked(h.overdueLocked(now))
		h.mu.Unlock()
		h.letGo()
		h.core.tell(h)
		return
	}
	until := h.until
	soon := !h.set.fixed && h.needsRetryLocked()
	h.mu.Unlock()
	if until.Before(before) {
		h.core.schedule.hasten(h, until)
	}
	if soon {
		h.core.schedule.hasten(h, now.Add(min(max(h.set.lease/12, 2*time.Millisecond), 500*time.Millisecond)))
	}
}

// needsRetryLocked tells that a node has forgotten the lock and may be repaired, or that a round is over and too few nodes
// confirmed it.
func (h *hold) needsRetryLocked() bool {
	open := false
	for i := range h.votes {
		if h.votes[i].forgot {
			return true
		}
		open = open || h.votes[i].busy
	}
	goal := clock.Deadline(h.begun, h.set.lease, h.set.drift)
	if h.limit != clock.Never {
		goal = min(goal, h.limit)
	}
	return !open && h.until.Before(goal)
}

// overdueLocked says why a hold ends.
func (h *hold) overdueLocked(now clock.Instant) string {
	switch {
	case h.limit != clock.Never && !now.Before(h.limit):
		return fmt.Sprintf("its max hold of %v is over", h.set.maxHold)
	case h.until == clock.Never:
		return "too few nodes keep it"
	case h.set.fixed:
		return "its lease is over"
	default:
		return "too few nodes confirmed a renewal in time"
	}
}
