package engine

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Tally counts the replies to one call (release, extend, re-entry) until its outcome is certain: no
// caller waits for a slow node after that. A nil Tally ignores its replies.
type Tally struct {
	nodes   int
	need    int           // of these nodes: for a release, less than the quorum size by the nodes that get none
	all     bool          // every reply counts
	Decided chan struct{} // closed when need replies count, or no longer can
	// believed has the nodes that should have the owner, bit by node. If one of them replies that it hasn't, the
	// reply counts but decides nothing: after too many such replies, the lock had been lost.
	believed uint64

	mu     sync.Mutex
	left   int // replies still to come
	count  int
	denied uint64 // bit by node: its reply counts, and the owner was not there
	found  bool   // on some node
	heard  int    // of a release: the fewest connections that heard it, over the nodes where the owner was found; −1 if one could not publish
	failed []error

	room [usualNodes]releaseReply // the receivers of a release, by node
}

// nodeReply is one node's reply, as a tally counts it.
type nodeReply struct {
	counts bool // towards what the tally needs
	found  bool // the owner was there
	heard  int  // how many connections heard the release
	err    error
}

func newTally(nodes, need int) *Tally {
	t := &Tally{nodes: nodes, need: need, left: nodes, Decided: make(chan struct{})}
	if t.isDecidedLocked() {
		close(t.Decided)
	}
	return t
}

// newTallyOfAll returns a tally that is decided once all have replied, or failed.
func newTallyOfAll(nodes int) *Tally {
	t := newTally(nodes, nodes)
	t.all = true
	return t
}

// receiver returns the receiver of a node's reply to a release, to be set.
func (t *Tally) receiver(node int) *releaseReply {
	if t == nil || node >= len(t.room) {
		return new(releaseReply)
	}
	return &t.room[node]
}

func (t *Tally) add(node int, a nodeReply) {
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
		t.failed = append(t.failed, a.err)
	}
	if !before && t.isDecidedLocked() {
		close(t.Decided)
	}
}

// isDecidedLocked reports whether no further reply changes what Result says, nor WasLost of nodes that are believed to have
// it: enough have it and count, too few can still count, or too few can have it and enough count.
func (t *Tally) isDecidedLocked() bool {
	certain := t.count - bits.OnesCount64(t.denied&t.believed)
	return certain >= t.need || t.count+t.left < t.need || certain+t.left < t.need && t.count >= t.need
}

// HeardBy returns how many connections heard the release on every node that had the lock, according to the replies so
// far.
func (t *Tally) HeardBy() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

// WasLost reports whether the lock that was released had been lost: without the nodes that should
// have had it and did not, fewer than the quorum size had it.
func (t *Tally) WasLost(quorumSize int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bits.OnesCount64(t.believed&^t.denied) < quorumSize
}

// Counted returns how many replies count so far.
func (t *Tally) Counted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// Result returns what the replies so far say: whether enough count, and the errors.
func (t *Tally) Result() (enough bool, failed []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count >= t.need, slices.Clone(t.failed)
}

// AwaitFor waits until t is decided or ctx ends, but at most for patience.
func (t *Tally) AwaitFor(ctx context.Context, patience time.Duration) {
	select {
	case <-t.Decided:
	case <-time.After(patience):
	case <-ctx.Done():
	}
}
