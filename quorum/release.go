package quorum

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
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
	footprint, r := &h.members[c.Master].footprint, t.receiver(c.Master)
	*r = releaseReply{tally: t, hold: h, node: c.Master}
	if c.Level == 0 {
		footprint.Abandon()
	}
	if footprint.NothingThere() {
		t.add(c.Master, nodeReply{counts: true})
		return
	}
	h.core.background.add()
	if err := h.pipe(c.Master).Start(call, footprint, r); err != nil {
		r.Done(pipeline.Result{Err: err})
	}
}

// withdraw ends the reservations of an attempt that failed, since nobody waits any more. A node that is down is not
// asked: it lets them end.
func (h *hold) withdraw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	call := scripts.Withdraw(h.names, h.owner)
	for i := range h.members {
		if h.pipe(i).Down() != nil {
			continue
		}
		h.core.background.add()
		if err := h.pipe(i).Start(call, &h.members[i].footprint, &releaseReply{hold: h, node: i}); err != nil {
			h.core.background.done()
		}
	}
}

// releaseReply receives a node's reply to a release. "Not found" counts too: the node has nothing of
// the owner's. After a resend it doesn't mean that the lock was lost: the first copy may have deleted
// the key.
type releaseReply struct {
	tally *tally
	hold  *hold
	node  int
}

func (r *releaseReply) Done(result pipeline.Result) {
	defer r.hold.core.background.done()
	said := result.Reply.Release
	if said.Heard < 0 {
		r.hold.core.counters.unannounced.Add(1)
	}
	found := result.Resent || said.Found == len(r.hold.names)
	r.tally.add(r.node, nodeReply{counts: result.Err == nil, found: found, heard: said.Heard, err: result.Err})
}

// finishLost ends the contexts of a lost lock, and only then releases what nodes still keep of it:
// another owner may be granted it at once. It runs in a goroutine of its own, because a context, a log
// or a hook may block, or call this package.
func (h *hold) finishLost() {
	h.endContexts()
	h.core.schedule.Remove(&h.entry) // no renewal is on its way to a pipeline then
	h.drop()
	h.set.log().Warn("quorumlock: lock lost",
		"names", h.first.names, "owner", h.owner.String(), "token", h.lease.Token(), "error", h.ended)
	if hook := h.set.hooks.Lost; hook != nil {
		hook(&h.first, h.ended)
	}
}

// drop releases what nodes still keep of a lost lock.
func (h *hold) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [8]lease.Command
	h.carryOutLocked(h.lease.Drop(room[:0]), nil)
}

// releaseInterrupted releases a hold after the caller's code (a hook, a context) has panicked or ended
// its goroutine. It waits for no reply, and does nothing if the hold has ended.
func (h *hold) releaseInterrupted() {
	h.core.schedule.Remove(&h.entry)
	if releases := h.interrupt(); releases != nil {
		defer h.carryOut(releases) // also if a context of the caller's panics again
		h.endContexts()
	}
}

// interrupt ends the lease. It returns what is left to carry out when the contexts have ended.
func (h *hold) interrupt() []lease.Command {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.IsDone() {
		return nil
	}
	h.first.unlocked.Store(true)
	return h.carryOutLocked(h.lease.Interrupt(nil), nil)
}

// orphan ends a hold because its Locker was closed. A hold that lingers has ended already.
func (h *hold) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [1]lease.Command
	h.carryOutLocked(h.lease.Orphan(room[:0]), nil)
}

// tally counts the replies to one call (release, extend, re-entry) until its outcome is certain: no
// caller waits for a slow node after that. A nil tally ignores its replies.
type tally struct {
	nodes   int
	need    int
	all     bool          // every reply counts
	decided chan struct{} // closed when need replies count, or no longer can
	// believed has the nodes that should have the owner, bit by node. If one of them replies that it
	// hasn't, the reply counts but decides nothing: with too many of those, the lock had been lost.
	believed uint64

	mu     sync.Mutex
	left   int // replies still to come
	count  int
	denied uint64 // bit by node: its reply counts, and the owner was not there
	found  bool   // on some node
	heard  int    // of a release: the fewest connections that heard it, over the nodes where the owner was found; −1 if one could not publish
	failed *multierror.Error

	few    [5]releaseReply // room for the receivers of a release, by node
	room   [8]any          // for the arguments of a release, with one name: as many as scripts.Release makes
	inRoom bool            // room is in use
}

// nodeReply is one node's reply, as a tally counts it.
type nodeReply struct {
	counts bool // towards what the tally needs
	found  bool // the owner was there
	heard  int  // how many connections heard the release
	err    error
}

func newTally(nodes, need int) *tally {
	t := &tally{nodes: nodes, need: need, left: nodes, decided: make(chan struct{})}
	if t.isDecidedLocked() {
		close(t.decided)
	}
	return t
}

// newTallyOfAll returns a tally that is decided once all have replied, or failed.
func newTallyOfAll(nodes int) *tally {
	t := newTally(nodes, nodes)
	t.all = true
	return t
}

// receiver returns the receiver of a node's reply to a release, to be set.
func (t *tally) receiver(node int) *releaseReply {
	if t == nil || node >= len(t.few) {
		return new(releaseReply)
	}
	return &t.few[node]
}

// takeRoom returns room for the arguments of a release, once; nil for none.
func (t *tally) takeRoom() []any {
	if t == nil || t.inRoom {
		return nil
	}
	t.inRoom = true
	return t.room[:0]
}

func (t *tally) add(node int, a nodeReply) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.isDecidedLocked()
	t.left--
	if a.counts && !a.found {
		t.denied |= 1 << node
	}
	if a.counts || t.all {
		t.count++
	}
	if a.counts && a.found && (!t.found || a.heard < t.heard) {
		t.found, t.heard = true, a.heard
	}
	if a.err != nil {
		t.failed = multierror.Append(t.failed, a.err)
	}
	if !before && t.isDecidedLocked() {
		close(t.decided)
	}
}

func (t *tally) isDecidedLocked() bool {
	certain := t.count - bits.OnesCount64(t.denied&t.believed)
	return certain >= t.need || certain+t.left < t.need
}

// heardBy returns how many connections heard the release on every node that had the lock, by the
// replies so far.
func (t *tally) heardBy() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

// wasLost reports whether the lock that was released had been lost: without the nodes that should
// have had it and did not, fewer than need had it.
func (t *tally) wasLost(need int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bits.OnesCount64(t.believed&^t.denied) < need
}

// counted returns how many replies count so far.
func (t *tally) counted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// result returns what the replies so far say: whether enough count, and the errors.
func (t *tally) result() (enough bool, failed *multierror.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		failed = &multierror.Error{Errors: slices.Clone(t.failed.Errors)}
	}
	return t.count >= t.need, failed
}

// awaitFor waits until t is decided, for that long at most, or until ctx ends.
func (t *tally) awaitFor(ctx context.Context, patience time.Duration) {
	moment := time.NewTimer(patience)
	defer moment.Stop()
	select {
	case <-t.decided:
	case <-moment.C:
	case <-ctx.Done():
	}
}
