package quorum

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// Unlock lowers the level, or releases the lock when this is the handle that acquired it. It sends
// the release to all nodes that may have the lock, even if ctx has ended: the end of ctx ends only
// the waiting.
//
// Unlock returns nil when as many nodes have confirmed as the quorum size; the others get the
// release when they answer again. A node that was never asked for the lock counts as one that has
// confirmed, and gets no release. Else the error is an [*Error]. It wraps [ErrLost] when the lock
// had been lost, [ErrNotHeld] when this handle or the one that acquired the lock was unlocked
// before, [ErrUnavailable] when too few nodes confirmed, [ErrClosed] when the nodes were closed
// before, and the context's error where it ended the waiting: then the release is sent, but not
// confirmed. In each case the handle's context has ended. Once the lock is released, no renewal is
// sent.
//
// Before the end of its min hold ([WithMinHold]) the release is put off until then: Unlock asks no
// node, and returns nil; or an error that wraps [ErrClosed] after Close, which leaves the lock to
// its lease.
//
// ctx may be the lock's own context, or derived from it. Unlock ends that context, which does not
// end the waiting: then the context given to [Locker.Lock] bounds it, and the deadline of ctx.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.level > 1 {
		return l.unlockInner(ctx)
	}
	h := l.hold
	if lingers, err := l.startLinger(); lingers {
		if !errors.Is(err, ErrNotHeld) {
			l.runReleasedHook()
		}
		return err
	}
	h.core.schedule.Remove(&h.entry) // a renewal is in the pipeline by now, or is never sent
	t, wasOrphaned, err := l.startRelease()
	if err != nil {
		return err
	}
	l.runReleasedHook()
	err = l.await(ctx, "unlock", t)
	if heard := t.heardBy(); heard > 0 {
		h.core.history.Released(newNameSet(l.names).hash(), heard, h.core.moment())
	}
	if failed, _ := err.(*Error); failed != nil {
		if !errors.Is(failed, ErrUnavailable) { // then it is the end of ctx
			failed.causes = slices.Insert(failed.causes, 0, error(detail("release sent, not confirmed")))
		}
		if wasOrphaned {
			failed.causes = slices.Insert(failed.causes, 0, ErrClosed)
		}
	}
	// Without the nodes that should have held it and did not, was there a quorum?
	if _, denied, _ := t.result(); err == nil && !wasOrphaned && bits.OnesCount64(t.believed&^denied) < h.core.need {
		causes := []error{ErrLost, detail("nodes had forgotten it, or given it to another")}
		return &Error{Op: "unlock", Names: l.names, causes: causes}
	}
	return err
}

// runReleasedHook counts the release, and calls the Released hook.
func (l *Lock) runReleasedHook() {
	l.hold.core.counters.released.Add(1)
	if hook := l.hold.set.hooks.Released; hook != nil {
		hook(l)
	}
}

// startLinger ends the lock and its contexts before its min hold is over, and leaves the release to
// the schedule. It reports whether the lock stays on the nodes. The error says that it lingers
// already, or that the Locker is closed: then the lock stays for its lease.
func (l *Lock) startLinger() (lingers bool, err error) {
	h := l.hold
	if h.set.minHold == 0 {
		return false, nil
	}
	defer func() { // after the contexts have ended, even if a context of the caller's panics
		if lingers && err == nil {
			h.core.schedule.Hasten(&h.entry, h.lease.MinHoldEnd())
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	err = l.usableLocked("unlock")
	if h.lease.Phase() == lease.Lingering {
		return true, err
	}
	if l.unlocked.Load() {
		return false, nil
	}
	var room [1]lease.Command
	lingers, commands := h.lease.Linger(h.core.clock.Now(), room[:0])
	if !lingers {
		return false, nil
	}
	l.unlocked.Store(true)
	h.carryOutLocked(commands, callers{})
	return true, err
}

// startRelease ends the lock and its contexts, and sends the release. t counts the replies. The
// error says why there is nothing to release.
func (l *Lock) startRelease() (t *tally, wasOrphaned bool, err error) {
	h := l.hold
	t, wasOrphaned, justLost, err := l.endHold()
	if justLost {
		h.core.finishLost(h)
	}
	return t, wasOrphaned, err
}

// endHold is startRelease under the mutex. justLost reports that it found the deadline passed: then
// the caller calls finishLost.
func (l *Lock) endHold() (t *tally, wasOrphaned, justLost bool, err error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	wasOrphaned = h.lease.Phase() == lease.Orphaned
	now := h.core.clock.Now()
	err = l.usableAtLocked("unlock", now)
	l.unlocked.Store(true)
	keepers := h.lease.KeepersAt(now)
	var room [8]lease.Command
	commands := h.lease.Unlock(now, room[:0])
	if err != nil && !wasOrphaned {
		return nil, false, h.carryOutLocked(commands, callers{}), err
	}
	t = newTally(len(h.members), h.core.need)
	t.believed = keepers
	h.releaseLocked(commands, t.few[:0], allIn(t))
	return t, wasOrphaned, false, nil
}

// unlockInner is Unlock of the handle of a re-entry.
func (l *Lock) unlockInner(ctx context.Context) error {
	defer l.cancel(ErrReleased)
	t, err := l.startLower()
	l.cancel(ErrReleased)
	if err != nil {
		return err
	}
	// The hold's own level decides, not the replies. The wait is for operators: Inspect finds the
	// new level on the nodes afterwards.
	awaitDecided(ctx, t)
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.Phase() == lease.Expired {
		return &Error{Op: "unlock", Names: l.names, causes: []error{h.lossReason}}
	}
	return nil
}

// startLower ends the handle, and lowers the level here and on the nodes. The error says why there
// is no level to lower.
func (l *Lock) startLower() (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	err := l.usableLocked("unlock")
	l.unlocked.Store(true)
	if err != nil {
		return nil, err
	}
	t := newTally(len(h.members), h.core.need)
	h.lowerLocked(l, allIn(t))
	return t, nil
}
