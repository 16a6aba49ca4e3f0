package quorum

import (
	"context"
	"math/bits"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
)

// Unlock lowers the level, or releases the lock when this is the handle that acquired it. The release is always sent, to all
// nodes, also on a context that has ended: the context ends only the waiting. It returns nil when as many nodes as the rule
// needs have confirmed; the others hear of it when they answer again. The error, a *Error, wraps ErrLost when the lock had been
// lost before, ErrNotHeld when it was unlocked before, through this handle or the one that acquired it, ErrUnavailable when
// too few nodes confirmed, ErrClosed when the nodes were closed before, and the context's error where it ended the waiting.
// Whatever it returns, the lock's context has ended and no renewal is sent any more.
//
// The lock's own context may be given, or one that is derived from it: its end, which Unlock brings about, is not the end of the waiting.
// The context that was given to Lock bounds it then, and a deadline that ctx has.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.level > 1 {
		return l.leave(ctx)
	}
	h := l.hold
	settled := false
	defer func() {
		if !settled { // the clock, which is the caller's, or a hook panicked
			h.drop()
		}
	}()
	h.core.schedule.remove(h) // a renewal is in the pipeline by now, or will never be sent
	r, wasClosed, err := l.release()
	if err != nil {
		settled = true
		return err
	}
	if hook := h.set.hooks.Released; hook != nil {
		hook(l)
	}
	settled = true

	err = l.await(ctx, "unlock", r)
	if failed, _ := err.(*Error); failed != nil && wasClosed {
		failed.causes = slices.Insert(failed.causes, 0, ErrClosed)
	}
	// Nodes that were believed to hold it, and did not: without them, was it held by the rule?
	if _, denied, _ := r.outcome(); err == nil && !wasClosed && bits.OnesCount64(r.believed&^denied) < h.core.need {
		return &Error{Op: "unlock", Names: l.names, causes: []error{ErrLost, wordsOnly("nodes had forgotten it, or given it to another")}}
	}
	return err
}

// release ends the lock and its contexts, and sends the release. The error says why there is nothing to release.
func (l *Lock) release() (r *round, wasClosed bool, err error) {
	h := l.hold
	justLost := false
	defer func() {
		if justLost {
			h.letGo()
			h.core.tell(h)
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	wasClosed = h.phase == closed
	if !wasClosed {
		if err := l.usableLocked("unlock"); err != nil {
			l.unlocked.Store(true)
			if h.phase == held {
				defer func() { justLost = h.phase == expired }()
				h.loseLocked("the deadline has passed")
			}
			return nil, false, err
		}
	}
	r = newRound(len(h.votes), h.core.need)
	now := h.core.clock.Now()
	for i := range h.votes {
		if now.Before(h.votes[i].until) {
			r.believed |= 1 << i
		}
	}
	l.unlocked.Store(true)
	h.phase = released
	defer h.abandonLocked(r.all)
	h.endContextsLocked(ErrReleased)
	return r, wasClosed, nil
}

// leave is Unlock of a handle that entered a held lock again.
func (l *Lock) leave(ctx context.Context) error {
	defer l.cancel(ErrReleased)
	h := l.hold
	r, err := l.lower()
	l.cancel(ErrReleased)
	if err != nil {
		return err
	}
	// The handle's own count decides, so what the nodes answer does not; but whoever looks at them should find the level there.
	patiently(ctx, r.decided)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == expired {
		return &Error{Op: "unlock", Names: l.names, causes: []error{h.reason}}
	}
	return nil
}

// lower lowers the level, here and on the nodes. The error says why there is no level to lower.
func (l *Lock) lower() (*round, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	err := l.usableLocked("unlock")
	l.unlocked.Store(true)
	if err != nil {
		return nil, err
	}
	h.level--
	h.inner = slices.DeleteFunc(h.inner, func(other *Lock) bool { return other == l })
	r := newRound(len(h.votes), h.core.need)
	h.releaseLocked(h.level, r.all)
	return r, nil
}

// orphan ends a hold over which the locker was closed.
func (h *hold) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held {
		h.phase = closed
		h.until = clock.Never
		h.endContextsLocked(ErrClosed)
	}
}
