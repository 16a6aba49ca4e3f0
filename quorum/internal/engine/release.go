package engine

import (
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// Release ends the lock and its contexts, and sends the release, also of an orphan. t counts the replies; it is nil
// if there is nothing to release, or the handle was unlocked before.
func (l *Handle) Release() (t *Tally, before Status) {
	h := l.hold
	if l.unlocked.Load() { // it may linger: the schedule renews and releases it then
		before = l.Status() // the lease has ended by now, and the contexts perhaps have not
		h.endContexts()
		return nil, before
	}
	h.engine.schedule.Remove(&h.entry) // a renewal is in the pipeline by now, or is never sent
	var room [8]lease.Command
	releases, keepers, before := l.endLease(room[:0])
	defer func() { // even if a context of the caller's panics
		if before.Holds() || before.Phase == lease.Orphaned {
			h.mu.Lock()
			defer h.mu.Unlock()
			t = h.releaseLocked(&h.room.release, releases, keepers)
		}
	}()
	h.endContexts()
	return nil, before
}

// endLease ends the lease. It appends the releases, which are due when the contexts have ended.
func (l *Handle) endLease(room []lease.Command) (releases []lease.Command, keepers quorate.Set, before Status) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.engine.Clock.Now()
	before = l.statusLocked(now)
	l.unlocked.Store(true)
	keepers = h.lease.KeepersAt(now)
	return h.carryOutLocked(h.lease.Unlock(now, room), nil), keepers, before
}

// Lower ends an inner handle, and lowers the depth here and on the nodes. t is nil if the handle doesn't hold the lock.
func (l *Handle) Lower() (t *Tally, before Status) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	before = l.statusLocked(h.engine.Clock.Now())
	l.unlocked.Store(true)
	if !before.Holds() {
		return nil, before
	}
	return h.releaseLocked(new(Tally), h.leaveLocked(l), 0), before
}

// releaseLocked carries out the releases of a lock, or of a depth of it. keepers are the nodes that should have the
// owner.
func (h *Hold) releaseLocked(t *Tally, commands []lease.Command, keepers quorate.Set) *Tally {
	t.init(h.engine.Quorum, mastersOf(commands))
	t.believed = keepers
	h.carryOutLocked(commands, t)
	return t
}

// sendRelease sends a release to a node. Before the release of the whole lock, requests for a grant are abandoned, so
// that none is resent after it.
func (h *Hold) sendRelease(c lease.Command, call scripts.Call, t *Tally) {
	footprint := &h.members[c.Master].footprint
	if c.Depth == 0 {
		footprint.Abandon()
	}
	if footprint.NothingThere() {
		t.add(c.Master, nodeReply{counts: true})
		return
	}
	r := t.receiver(c.Master)
	*r = releaseReply{tally: t, hold: h, node: c.Master}
	r.send(call, footprint)
}

// Withdraw ends the reservations of an attempt that failed, since nobody waits. A node that is down is not
// asked: it lets them end.
func (h *Hold) Withdraw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	call := scripts.Withdraw(h.names, h.owner)
	for i := range h.members {
		if h.pipe(i).Down() != nil {
			continue
		}
		(&releaseReply{hold: h, node: i}).send(call, &h.members[i].footprint)
	}
}

// releasePredecessorLocked releases the owner that this one has replaced on a quorum, where it may not have replaced it: the
// request to do so may never be carried out, and nobody else releases it. It is called when this owner's lock ends: before,
// the release would overtake that request, and wake waiters for nothing.
func (h *Hold) releasePredecessorLocked() {
	if h.predecessor == nil || h.lease.Verdict() != lease.Won {
		return
	}
	for i, n := range h.engine.Nodes {
		if h.lease.AnswerOf(i) == lease.Granted {
			continue
		}
		call := scripts.ReleaseBarred(h.names, *h.predecessor, n.MaxLease())
		(&releaseReply{hold: h, node: i}).send(call, new(pipeline.Footprint))
	}
	h.predecessor = nil
}

// releaseReply receives a node's reply to a release. "Not found" counts too: the owner holds
// nothing on that node. After a resend it doesn't mean that the lock was lost: the first copy may
// have deleted the key.
type releaseReply struct {
	tally *Tally
	hold  *Hold
	node  int
}

// send sends the release. A node that is down is sent it later; here its error is the reply.
func (r *releaseReply) send(call scripts.Call, footprint *pipeline.Footprint) {
	r.hold.engine.background.add()
	if err := r.hold.pipe(r.node).Start(call, footprint, r); err != nil {
		r.Done(pipeline.Result{Err: err})
	}
}

func (r *releaseReply) Done(result pipeline.Result) {
	defer r.hold.engine.background.done()
	said := result.Reply.Release
	if said.Heard < 0 {
		r.hold.engine.Unannounced.Add(1)
	}
	found := result.Resent || said.Found == len(r.hold.names)
	r.tally.add(r.node, nodeReply{counts: result.Err == nil, found: found, heard: said.Heard, err: result.Err})
}
