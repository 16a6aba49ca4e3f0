package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// Tally counts the replies to one call (release, extend, re-entry) until its outcome is certain: no
// caller waits for a slow node after that. A nil Tally ignores its replies.
type Tally struct {
	quorum  quorate.Rule
	all     bool          // it is decided once no reply is left
	Decided chan struct{} // closed when the replies of a quorum count, or no longer can
	// believed has the nodes that should have the owner. If one of them replies that it hasn't, the reply counts but
	// decides nothing: after too many such replies, the lock had been lost.
	believed quorate.Set

	mu      sync.Mutex
	left    int         // with all: replies still to come
	open    quorate.Set // that are yet to reply
	counted quorate.Set // their replies count, or they were not asked
	denied  quorate.Set // their replies count, and the owner was not there
	found   bool        // on some node
	heard   int         // of a release: the fewest connections that heard it, over the nodes where the owner was found; −1 if one could not publish
	failed  []error

	room [usualNodes]releaseReply // the receivers of a release, by node
}

// nodeReply is one node's reply, as a tally counts it.
type nodeReply struct {
	counts bool // towards what the tally needs
	found  bool // the owner was there
	heard  int  // how many connections heard the release
	err    error
}

// newTally returns a tally of the nodes that are asked. The others count as if they had confirmed.
func newTally(quorum quorate.Rule, asked quorate.Set) *Tally { return new(Tally).init(quorum, asked) }

func (t *Tally) init(quorum quorate.Rule, asked quorate.Set) *Tally {
	t.quorum, t.open, t.counted = quorum, asked, quorum.Nodes()&^asked
	return begin(t)
}

// newTallyOfAll returns a tally that is decided once that many replies have come, or failed.
func newTallyOfAll(replies int) *Tally { return begin(&Tally{all: true, left: replies}) }

func begin(t *Tally) *Tally {
	if t.Decided = make(chan struct{}); t.isDecidedLocked() {
		close(t.Decided)
	}
	return t
}

// mastersOf returns the masters that get the commands.
func mastersOf(commands []lease.Command) (masters quorate.Set) {
	for _, c := range commands {
		masters |= quorate.Of(c.Master)
	}
	return masters
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
	t.open &^= quorate.Of(node)
	if a.counts && !a.found {
		t.denied |= quorate.Of(node)
	}
	if a.counts {
		t.counted |= quorate.Of(node)
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

// isDecidedLocked reports whether no further reply changes what Result says of the lock: enough have it and count, too few
// can still count, or too few can have it and enough count.
func (t *Tally) isDecidedLocked() bool {
	if t.all {
		return t.left == 0
	}
	certain := t.counted &^ (t.denied & t.believed)
	if is := t.quorum.Judge(certain, t.open); is != quorate.Lost {
		return is == quorate.Won
	}
	return t.quorum.Judge(t.counted, t.open) != quorate.Open
}

// Replies is what the replies to a call say so far.
type Replies struct {
	Counted int  // how many count
	Enough  bool // count
	Heard   int  // how many connections heard the release on every node that had the lock
	// WasLost: the lock that was released had been lost. Without the nodes that should have had it and did not, no quorum
	// had it.
	WasLost bool
	Failed  []error
}

// Result returns what the replies say so far.
func (t *Tally) Result() Replies {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Replies{Counted: t.counted.Len(), Enough: t.quorum.Enough(t.counted), Heard: t.heard,
		WasLost: !t.quorum.Enough(t.believed &^ t.denied), Failed: slices.Clone(t.failed)}
}

// AwaitFor waits until t is decided or ctx ends, but at most for patience.
func (t *Tally) AwaitFor(ctx context.Context, patience time.Duration) {
	select {
	case <-t.Decided:
	case <-time.After(patience):
	case <-ctx.Done():
	}
}
