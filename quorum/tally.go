package quorum

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// maxNodes is the number of bits in tally.believed, which has one for each node.
const maxNodes = 64

// tally counts the replies to one call that goes to all nodes of a hold (release, extend,
// re-entry), up to the moment when the outcome is certain: no caller waits for a slow node after
// that. A nil tally ignores its replies.
type tally struct {
	nodes   int
	need    int
	decided chan struct{} // closed when need replies count, or no longer can
	// believed, bit by node, has the nodes that should have the owner. A reply that denies it
	// counts, but decides nothing: with too many of them, the lock had been lost.
	believed uint64

	mu     sync.Mutex
	left   int // replies still to come
	count  int
	denied uint64 // bit by node: it answered, and the owner was not there
	found  bool   // on some node
	heard  int    // of a release: the fewest connections that heard it, over the nodes where the owner was found
	failed *multierror.Error
	clear  chan struct{} // closed when the error is as permanent as it can be; nil while nobody waits for that

	few [5]releaseReply // room for the receivers of a release, by node
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

// receiver returns the receiver of a node's reply to a release, to be set.
func (t *tally) receiver(node int) *releaseReply {
	if t == nil || node >= len(t.few) {
		return new(releaseReply)
	}
	return &t.few[node]
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
	if a.counts {
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
	if t.clear != nil && !t.isUnclearLocked() {
		close(t.clear)
		t.clear = nil
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

// awaitWhetherPermanent waits, after a call that failed, for the nodes whose errors can make the
// call's permanent.
func (t *tally) awaitWhetherPermanent(ctx context.Context, closed <-chan struct{}) {
	if awaitDecided(ctx, t) != nil {
		return
	}
	if clear := t.unclear(); clear != nil {
		awaitClear(ctx, clear, closed)
	}
}

// awaitClear waits until clear is closed, for grace at most, or until ctx or the Locker ends. late
// reports that it waited for all of grace.
func awaitClear(ctx context.Context, clear, closed <-chan struct{}) (late bool) {
	moment := time.NewTimer(grace)
	defer moment.Stop()
	select {
	case <-clear:
	case <-moment.C:
		return true
	case <-ctx.Done():
	case <-closed:
	}
	return false
}

// unclear returns a channel that is closed once no reply can make the error permanent any more, or
// nil if none can now.
func (t *tally) unclear() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= t.need || !t.isUnclearLocked() {
		return nil
	}
	t.clear = make(chan struct{})
	return t.clear
}

func (t *tally) isUnclearLocked() bool {
	permanent := 0
	if t.failed != nil {
		for _, err := range t.failed.Errors {
			if isPermanent(err) {
				permanent++
			}
		}
	}
	return lease.Unclear(t.nodes, t.need, permanent, t.left)
}
