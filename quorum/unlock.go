package quorum

import (
	"context"
	"math/bits"
	"slices"
)

// Unlock lowers the level, or releases the lock when this is the handle that acquired it. The release is always sent, to all
// nodes, also on a context that has ended: the context ends only the waiting. It returns nil when as many nodes have confirmed
// as the quorum needs; the others get the release when they answer again. The error, an [*Error], wraps [ErrLost] when the lock had
// been lost before, [ErrNotHeld] when it was unlocked before, through this handle or the one that acquired it, [ErrUnavailable] when
// too few nodes confirmed, [ErrClosed] when the nodes were closed before, and the context's error where it ended the waiting.
// Whatever it returns, the lock's context has ended and no renewal is sent any more.
//
// The lock's own context may be given, or one that is derived from it: its end, which Unlock brings about, does not end the waiting.
// The context that was given to [Locker.Lock] bounds it then, and a deadline that ctx has.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.level > 1 {
		return l.unlockInner(ctx)
	}
	h := l.hold
	h.core.schedule.remove(&h.entry) // a renewal is in the pipeline by now, or will never be sent
	t, wasOrphaned, err := l.startRelease()
	if err != nil {
		return err
	}
	if hook := h.set.hooks.Released; hook != nil {
		hook(l)
	}
	err = l.await(ctx, "unlock", t)
	if failed, _ := err.(*Error); failed != nil && wasOrphaned {
		failed.causes = slices.Insert(failed.causes, 0, ErrClosed)
	}
	// Nodes that were believed to hold it, and did not: without them, did a quorum hold it?
	if _, denied, _ := t.result(); err == nil && !wasOrphaned && bits.OnesCount64(t.believed&^denied) < h.core.need {
		return &Error{Op: "unlock", Names: l.names, causes: []error{ErrLost, detail("nodes had forgotten it, or given it to another")}}
	}
	return err
}

// startRelease ends the lock and its contexts, and sends the release. The error says why there is nothing to release.
func (l *Lock) startRelease() (t *tally, wasOrphaned bool, err error) {
	h := l.hold
	t, wasOrphaned, justLost, err := l.end()
	if justLost {
		h.core.finishLost(h)
	}
	return t, wasOrphaned, err
}

// end is startRelease but for what a lock that is found to be lost only now needs besides.
func (l *Lock) end() (t *tally, wasOrphaned, justLost bool, err error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	wasOrphaned = h.phase == orphaned
	if err := l.usableLocked("unlock"); err != nil && !wasOrphaned {
		l.unlocked.Store(true)
		if justLost = h.phase == held; justLost {
			h.loseLocked("the deadline has passed")
		}
		return nil, false, justLost, err
	}
	t = newTally(len(h.votes), h.core.need)
	now := h.core.clock.Now()
	for i := range h.votes {
		if now.Before(h.votes[i].until) {
			t.believed |= 1 << i
		}
	}
	l.unlocked.Store(true)
	h.phase = released
	defer h.abandonLocked(allIn(t)) // after the contexts have ended, also when one of the caller's panics
	h.endContextsLocked(ErrReleased)
	return t, wasOrphaned, false, nil
}

// unlockInner is Unlock of a handle that entered a held lock again.
func (l *Lock) unlockInner(ctx context.Context) error {
	defer l.cancel(ErrReleased)
	t, err := l.startLower()
	l.cancel(ErrReleased)
	if err != nil {
		return err
	}
	// The handle's own count decides, not what the nodes answer. But an operator who looks at them should find the level there.
	awaitDecided(ctx, t)
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == expired {
		return &Error{Op: "unlock", Names: l.names, causes: []error{h.lossReason}}
	}
	return nil
}

// startLower lowers the level, here and on the nodes. The error says why there is no level to lower.
func (l *Lock) startLower() (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	err := l.usableLocked("unlock")
	l.unlocked.Store(true)
	if err != nil {
		return nil, err
	}
	t := newTally(len(h.votes), h.core.need)
	h.lowerLocked(l, allIn(t))
	return t, nil
}
