package quorum

import (
	"fmt"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// abandonLocked sees that nothing is granted to the owner any more, and sends the release. See releaseLocked.
func (h *hold) abandonLocked(tallyFor func(*vote) *tally) {
	for i := range h.votes {
		h.votes[i].claim.Abandon()
	}
	h.releaseLocked(0, tallyFor)
}

// releaseLocked sends a release to every node where something of the owner's may be, also to those that have not answered.
// Each node's answer goes to the tally that to names for it, nil for none.
func (h *hold) releaseLocked(level int, tallyFor func(*vote) *tally) {
	call := scripts.Release(h.names, h.owner, level)
	all := make([]releaseReply, len(h.votes))
	for i := range h.votes {
		v, r := &h.votes[i], &all[i]
		*r = releaseReply{tally: tallyFor(v), hold: h, node: i}
		if !v.sent {
			r.tally.add(i, nodeReply{counts: true})
			continue
		}
		h.core.background.add()
		if err := h.pipe(i).Start(call, &v.claim, r); err != nil {
			r.Done(pipeline.Result{Err: err})
		}
	}
}

// allIn returns the tallyFor that counts the replies of all nodes in t.
func allIn(t *tally) func(*vote) *tally { return func(*vote) *tally { return t } }

// noTally is for releases whose answers no caller waits for.
func noTally(*vote) *tally { return nil }

// releaseReply takes the answer to one release. That the owner was not found counts too: nothing of it is left there. A release
// that went out again may have found before what it does not find any more.
type releaseReply struct {
	tally *tally
	hold  *hold
	node  int
}

func (l *releaseReply) Done(r pipeline.Result) {
	defer l.hold.core.background.done()
	found := r.Resent || r.Reply.Release == len(l.hold.names)
	l.tally.add(l.node, nodeReply{counts: r.Err == nil, found: found, err: r.Err})
}

// endContextsLocked may be called with mu: what waits for a context runs in goroutines of its own.
func (h *hold) endContextsLocked(cause error) {
	h.first.cancel(cause)
	for _, l := range h.inner {
		l.cancel(cause)
	}
	h.inner = nil
}

// loseLocked ends a hold that can no longer be trusted, and its contexts, before anything else is done about it. The caller
// unlocks mu and calls core.finishLost.
func (h *hold) loseLocked(why string) {
	h.lossReason = h.errorLocked("hold", ErrLost, detail(why))
	h.phase = expired
	h.endContextsLocked(h.lossReason)
}

// whyLostLocked says why a hold whose deadline has passed is lost.
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

// finishLost releases what is left of holds that were lost, and tells the log and the hooks.
func (c *core) finishLost(lost ...*hold) {
	for _, h := range lost {
		c.schedule.remove(&h.entry)
		h.mu.Lock()
		h.abandonLocked(noTally)
		h.mu.Unlock()
	}
	c.notifyLost(lost)
}

// notifyLost runs in a goroutine of its own: a log or a hook may block, or call back.
func (c *core) notifyLost(lost []*hold) {
	if len(lost) == 0 {
		return
	}
	c.background.add()
	go func() {
		defer c.background.done()
		defer func() { c.notifyLost(lost) }() // the rest, when a log or a hook ended the goroutine
		for len(lost) > 0 {
			h := lost[0]
			lost = lost[1:]
			h.set.logger.Warn("quorumlock: lock lost", "names", h.first.names, "owner", h.owner.String(), "token", h.token, "error", h.lossReason)
			if hook := h.set.hooks.Lost; hook != nil {
				hook(&h.first, h.lossReason)
			}
		}
	}()
}

// releaseInterrupted releases a hold in the midst of which code of the caller's panicked or ended the goroutine. It waits for no answer, and does
// nothing where the hold has ended already.
func (h *hold) releaseInterrupted() {
	h.core.schedule.remove(&h.entry)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.phase {
	case attempting:
		h.phase = failed
	case held, orphaned:
		h.phase = released
	default:
		return
	}
	h.first.unlocked.Store(true)
	defer h.abandonLocked(noTally)
	if h.first.cancel != nil {
		h.endContextsLocked(ErrReleased)
	}
}

// orphan ends a hold over which the locker was closed. Its keys are left to their lease: the work may be running.
func (h *hold) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held {
		h.phase = orphaned
		h.deadline = clock.Never
		h.endContextsLocked(ErrClosed)
	}
}
