package quorum

import (
	"slices"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// releaseLocked carries out the commands with which a lock, or a level of it, is released. A node's
// reply goes to the tally that tallyFor returns for it, or to none where it returns nil; a node that
// gets no release counts as one that has confirmed. The receivers of the replies are in room, if it
// suffices.
func (h *hold) releaseLocked(commands []lease.Command, room []releaseReply, tallyFor func(node int) *tally) {
	released := uint64(0)
	for _, c := range commands {
		if c.Do == lease.Release {
			released |= 1 << c.Master
		}
	}
	for i := range h.members {
		if released&(1<<i) == 0 {
			tallyFor(i).add(i, nodeReply{counts: true})
		}
	}
	room = slices.Grow(room, len(h.members))[:len(h.members)]
	h.carryOutLocked(commands, callers{tally: tallyFor, room: room})
}

// sendRelease sends a release to a node. Before that of the whole lock, requests for a grant are
// abandoned, so that none of them is resent behind it.
func (h *hold) sendRelease(c lease.Command, to *callers) {
	claim, r := &h.members[c.Master].claim, &to.room[c.Master]
	*r = releaseReply{tally: to.tally(c.Master), hold: h, node: c.Master}
	if c.Level == 0 {
		claim.Abandon()
	}
	if claim.NothingThere() {
		r.tally.add(c.Master, nodeReply{counts: true})
		return
	}
	h.core.background.add()
	if err := h.pipe(c.Master).Start(scripts.Release(h.names, h.owner, c.Level), claim, r); err != nil {
		r.Done(pipeline.Result{Err: err})
	}
}

// allIn is the tallyFor that counts the replies of all nodes in t.
func allIn(t *tally) func(int) *tally { return func(int) *tally { return t } }

// noTally is the tallyFor of a release that no caller waits for.
func noTally(int) *tally { return nil }

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
	h.releaseLocked(h.lease.Drop(room[:0]), nil, noTally)
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
	h.first.unlocked.Store(true)
	var room [8]lease.Command
	h.releaseLocked(h.lease.Interrupt(room[:0]), nil, noTally)
}

// orphan ends a hold because its Locker was closed. A hold that lingers has ended already.
func (h *hold) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [1]lease.Command
	h.carryOutLocked(h.lease.Orphan(room[:0]), callers{})
}
