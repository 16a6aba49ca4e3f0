package quorum

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// abandonLocked stops every request for a grant to the owner, and sends the release. See
// releaseLocked.
func (h *hold) abandonLocked(room []releaseReply, tallyFor func(*vote) *tally) {
	for i := range h.votes {
		h.votes[i].claim.Abandon()
	}
	h.releaseLocked(0, room, tallyFor)
}

// releaseLocked sends a release to every node that may hold something of the owner's, also to nodes
// that have not answered. A node's reply goes to the tally that tallyFor returns for its vote, or
// to none where it returns nil. The receivers of the replies are in room, if it suffices.
func (h *hold) releaseLocked(level int, room []releaseReply, tallyFor func(*vote) *tally) {
	call := scripts.Release(h.names, h.owner, level)
	all := slices.Grow(room, len(h.votes))[:len(h.votes)]
	for i := range h.votes {
		v, r := &h.votes[i], &all[i]
		*r = releaseReply{tally: tallyFor(v), hold: h, node: i}
		if !v.sent || v.claim.NothingThere() {
			r.tally.add(i, nodeReply{counts: true})
			continue
		}
		h.core.background.add()
		if err := h.pipe(i).Start(call, &v.claim, r); err != nil {
			r.Done(pipeline.Result{Err: err})
		}
	}
}

// allIn is the tallyFor that counts the replies of all nodes in t.
func allIn(t *tally) func(*vote) *tally { return func(*vote) *tally { return t } }

// noTally is the tallyFor of a release that no caller waits for.
func noTally(*vote) *tally { return nil }

// releaseReply receives a node's reply to a release. "Not found" counts too: nothing of the owner
// is left there. It is no denial after a resend, since the first copy may have deleted the key.
type releaseReply struct {
	tally *tally
	hold  *hold
	node  int
}

func (a *releaseReply) Done(r pipeline.Result) {
	defer a.hold.core.background.done()
	found := r.Resent || r.Reply.Release.Found == len(a.hold.names)
	a.tally.add(a.node, nodeReply{counts: r.Err == nil, found: found, heard: r.Reply.Release.Heard, err: r.Err})
}

// endContextsLocked ends the contexts of all handles. It may run with mu held: a function that a
// context's end starts runs in a goroutine of its own.
func (h *hold) endContextsLocked(cause error) {
	h.first.cancel(cause)
	for _, l := range h.inner {
		l.cancel(cause)
	}
	h.inner = nil
}

// loseLocked ends a hold that can no longer be trusted, and its contexts first of all. The caller
// unlocks mu and then calls core.finishLost.
func (h *hold) loseLocked(why string) {
	h.lossReason = h.errorLocked("hold", ErrLost, detail(why))
	h.phase = expired
	h.core.counters.lost.Add(1)
	h.endContextsLocked(h.lossReason)
}

// whyLostLocked returns why a hold whose deadline has passed is lost.
func (h *hold) whyLostLocked(now clock.Instant) string {
	switch {
	case h.maxHoldEnd != clock.Never && !now.Before(h.maxHoldEnd):
		return fmt.Sprintf("its max hold of %v is over", h.set.maxHold)
	case h.deadline == clock.Never:
		return "too few nodes keep it"
	case h.set.fixed:
		return "its lease is over"
	default:
		return "too few nodes confirmed a renewal in time"
	}
}

// finishLost releases what nodes still keep of lost holds, and calls notifyLost.
func (c *core) finishLost(lost ...*hold) {
	for _, h := range lost {
		c.schedule.Remove(&h.entry)
		h.mu.Lock()
		h.abandonLocked(nil, noTally)
		h.mu.Unlock()
	}
	c.notifyLost(lost)
}

// notifyLost logs the losses and runs the Lost hooks, in a goroutine of its own: a log or a hook
// may block, or call back.
func (c *core) notifyLost(lost []*hold) {
	if len(lost) == 0 {
		return
	}
	c.background.add()
	go func() {
		defer c.background.done()
		defer func() { c.notifyLost(lost) }() // the rest, after a log or a hook that ended the goroutine
		for len(lost) > 0 {
			h := lost[0]
			lost = lost[1:]
			h.set.log().Warn("quorumlock: lock lost",
				"names", h.first.names, "owner", h.owner.String(), "token", h.token, "error", h.lossReason)
			if hook := h.set.hooks.Lost; hook != nil {
				hook(&h.first, h.lossReason)
			}
		}
	}()
}

// releaseInterrupted releases a hold after the caller's code (a hook, a context) has panicked or
// ended the goroutine in the midst of it. It waits for no reply, and does nothing when the hold has
// ended.
func (h *hold) releaseInterrupted() {
	h.core.schedule.Remove(&h.entry)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.phase {
	case attempting:
		h.phase = failed
	case held, lingering, orphaned:
		h.phase = released
	default:
		return
	}
	h.first.unlocked.Store(true)
	defer h.abandonLocked(nil, noTally)
	if h.first.cancel != nil {
		h.endContextsLocked(ErrReleased)
	}
}

// orphan ends a hold because its Locker was closed. The keys are left to their leases: the work
// that the lock protects may still be running. A hold that lingers has ended already.
func (h *hold) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held {
		h.phase = orphaned
		h.deadline = clock.Never
		h.endContextsLocked(ErrClosed)
	}
}
