package quorum

import (
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// releaseLocked carries out the commands with which a lock, or a level of it, is released. The tally
// counts a node that gets no release as one that has confirmed. keepers are the nodes that should have
// the owner, bit by node.
func (h *hold) releaseLocked(commands []lease.Command, keepers uint64) *tally {
	sent := 0
	for _, c := range commands {
		if c.Do == lease.Release {
			sent++
		}
	}
	t := newTally(sent, h.core.need-(len(h.members)-sent))
	t.believed = keepers
	h.carryOutLocked(commands, t)
	return t
}

// sendRelease sends a release to a node. Before that of the whole lock, requests for a grant are
// abandoned, so that none of them is resent behind it.
func (h *hold) sendRelease(c lease.Command, call scripts.Call, t *tally) {
	claim, r := &h.members[c.Master].claim, t.receiver(c.Master)
	*r = releaseReply{tally: t, hold: h, node: c.Master}
	if c.Level == 0 {
		claim.Abandon()
	}
	if claim.NothingThere() {
		t.add(c.Master, nodeReply{counts: true})
		return
	}
	h.core.background.add()
	if err := h.pipe(c.Master).Start(call, claim, r); err != nil {
		r.Done(pipeline.Result{Err: err})
	}
}

// releaseReply receives a node's reply to a release. "Not found" counts too: nothing of the owner
// is left there. It is no denial after a resend, since the first copy may have deleted the key.
type releaseReply struct {
	tally *tally
	hold  *hold
	node  int
}

func (r *releaseReply) Done(result pipeline.Result) {
	defer r.hold.core.background.done()
	said := result.Reply.Release
	found := result.Resent || said.Found == len(r.hold.names)
	r.tally.add(r.node, nodeReply{counts: result.Err == nil, found: found, heard: said.Heard, err: result.Err})
}

// finishLost releases what nodes still keep of lost holds, and calls notifyLost.
func (c *core) finishLost(lost ...*hold) {
	for _, h := range lost {
		c.schedule.Remove(&h.entry)
		h.drop()
	}
	c.notifyLost(lost)
}

// drop releases what nodes still keep of a lost lock, which has left the schedule: no renewal is on
// its way to a pipeline.
func (h *hold) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [8]lease.Command
	h.carryOutLocked(h.lease.Drop(room[:0]), nil)
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
				"names", h.first.names, "owner", h.owner.String(), "token", h.lease.Token(), "error", h.lossReason)
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
	if h.lease.IsDone() {
		return
	}
	h.first.unlocked.Store(true)
	var room [8]lease.Command
	h.carryOutLocked(h.lease.Interrupt(room[:0]), nil)
}

// orphan ends a hold because its Locker was closed. A hold that lingers has ended already.
func (h *hold) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [1]lease.Command
	h.carryOutLocked(h.lease.Orphan(room[:0]), nil)
}
