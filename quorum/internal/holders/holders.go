// Package holders knows which processes hold locks: it asks the nodes about holders that stood in a
// locker's way ([Holders]), and shows the nodes which process this locker is ([Introduction]). It is
// for people, in errors and states: no decision depends on it.
package holders

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// holderWait bounds how long a failed TryLock waits to learn which process the holder is. The
	// node that is asked has just answered.
	holderWait = 20 * time.Millisecond
	// holderPause is how long an identity that a node does not know counts as unknown, and the shortest time between
	// two questions of waiting calls.
	holderPause = time.Second
	// maxHolders bounds how many lockers are remembered.
	maxHolders = 256
)

// Holders remembers which process each holder of a lock is. It delays no attempt: it
// asks only after one has failed, if a node has named a holder that is not known. It is safe for
// concurrent use.
type Holders struct {
	nodes   []*node.Node
	clock   clock.Clock
	askedAt atomic.Int64 // the clock.Instant of the last question for a call that waits

	mu      sync.Mutex
	lockers map[string]knownLocker
	handed  []string // owners that this locker has handed over, the last ones
}

// knownLocker is a node's answer about a locker. An identity does not change.
type knownLocker struct {
	identity scripts.Identity
	until    clock.Instant // of an unknown one
}

// Named is a holder by its owner's id, as a node has named it, and the name that it holds there.
type Named struct {
	Owner string
	Name  string
	Node  int
}

// New returns the memory of a locker.
func New(nodes []*node.Node, c clock.Clock) *Holders {
	hs := &Holders{nodes: nodes, clock: c, lockers: map[string]knownLocker{}}
	hs.askedAt.Store(int64(clock.Never))
	return hs
}

// Describe returns what is known of a holder. If it is not known, Describe asks the node that named it, and waits at
// most 20 ms for the answer, and no longer than ctx.
func (hs *Holders) Describe(ctx context.Context, of Named) scripts.Identity {
	if known, asked := hs.recall(of.Owner); asked {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, holderWait)
	defer cancel()
	select {
	case <-hs.ask(of):
	case <-ctx.Done():
	}
	return hs.Recall(of)
}

// Inquire returns what is known of the holder that an attempt of a waiting call met. If it is not known,
// it asks the node for what [Holders.Recall] returns later. It does not wait, and asks at most once a
// second, since each attempt may meet another holder.
func (hs *Holders) Inquire(of Named) scripts.Identity {
	known, asked := hs.recall(of.Owner)
	now, last := hs.clock.Now(), hs.askedAt.Load()
	if !asked && now.Sub(clock.Instant(last)) >= holderPause && hs.askedAt.CompareAndSwap(last, int64(now)) {
		hs.ask(of)
	}
	return known
}

// Recall returns what is known of the holder. It asks nobody.
func (hs *Holders) Recall(of Named) scripts.Identity {
	known, _ := hs.recall(of.Owner)
	return known
}

// recall reports whether there is nothing to ask.
func (hs *Holders) recall(owner string) (is scripts.Identity, asked bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	known := hs.lockers[scripts.LockerOf(owner)]
	return known.identity, known.identity != (scripts.Identity{}) || hs.clock.Now().Before(known.until)
}

// NoteHandedOver notes that this locker has handed over the lock of an owner, which the nodes still have.
func (hs *Holders) NoteHandedOver(owner string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.handed) >= maxHolders {
		hs.handed = slices.Delete(hs.handed, 0, 1)
	}
	hs.handed = append(hs.handed, owner)
}

// WasHandedOver reports whether the lock of an owner is among the last that were handed over.
func (hs *Holders) WasHandedOver(owner string) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return slices.Contains(hs.handed, owner)
}

// ask asks the node that named the holder for its identity. The channel that it returns is closed when the
// answer is remembered, or if the node is down.
func (hs *Holders) ask(of Named) <-chan struct{} {
	locker, answered := scripts.LockerOf(of.Owner), make(chan struct{})
	pipe := inside.Of(hs.nodes[of.Node]).Pipe(of.Name)
	note := pipeline.ReceiverFunc(func(r pipeline.Result) {
		defer close(answered)
		hs.noteAnswer(locker, r)
	})
	if pipe.Start(scripts.Who([]string{locker}), nil, note) != nil {
		close(answered)
	}
	return answered
}

// noteAnswer remembers a node's answer about a locker. An error, of a user that may not read the identity perhaps, leaves it
// unknown.
func (hs *Holders) noteAnswer(locker string, r pipeline.Result) {
	known := knownLocker{until: hs.clock.Now().Add(holderPause)}
	if r.Err == nil {
		known.identity = r.Reply.Who[0]
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.lockers) >= maxHolders {
		clear(hs.lockers)
	}
	hs.lockers[locker] = known
}
