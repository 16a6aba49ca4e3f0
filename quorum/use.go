package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// heldBy returns the lock over the names that the flow of ctx holds, nil for none. A flow is the
// calls whose contexts derive from a lock's context. The error wraps ErrInvalid for a flow that
// holds some of the names only, or holds them through several locks: it would wait for itself.
func (c *core) heldBy(ctx context.Context, op string, names []string) (*Lock, error) {
	var within *Lock
	for i, name := range names {
		found := innermost(ctx)
		for found != nil && !found.covers(c, name) {
			found = found.outer
		}
		switch {
		case i > 0 && (found == nil) != (within == nil):
			missing := name
			if within == nil {
				missing = names[0]
			}
			return nil, invalidf(op, names,
				"this flow holds some of the names already, but not %.64q: it would wait for itself", missing)
		case found != nil && within != nil && found.hold != within.hold:
			return nil, invalidf(op, names, "this flow holds the names through several locks: enter each by itself")
		}
		within = found
	}
	return within, nil
}

// covers reports whether the handle's lock is one of c over the name, and valid.
func (l *Lock) covers(c *core, name string) bool {
	return l.hold.core == c && l.slots == nil && slices.Contains(l.hold.first.names, name) && l.Valid()
}

// enter enters a lock again: its level rises by one, and as many nodes as the quorum size must
// confirm that they keep the lock.
func (within *Lock) enter(ctx context.Context, set *settings, names []string) (*Lock, error) {
	h := within.hold
	if other := h.set.differences(set); other != "" {
		return nil, invalidf("lock", names,
			"this flow holds it with other settings, which entering it again does not change: %s", other)
	}
	inner := &Lock{hold: h, outer: innermost(ctx)}
	inner.setNames(names)
	inner.makeContext(ctx)
	entered := false
	defer func() {
		if !entered {
			inner.backOut()
		}
	}()
	t, err := inner.startEnter(within, set)
	if err != nil {
		return nil, err
	}
	t.awaitWhetherPermanent(ctx, h.core.closed)
	err = inner.await(ctx, "lock", t)
	if err == nil && inner.Valid() && ctx.Err() == nil {
		entered = true
		return inner, nil
	}
	failure, _ := err.(*Error)
	if failure == nil {
		failure = &Error{Op: "lock", Names: slices.Clone(names), causes: contextError(ctx)}
		if failure.causes == nil {
			failure.causes = []error{ErrLost}
		}
	}
	if failure.Nodes != nil { // else the nodes do not matter
		failure.Need, failure.Granted = h.core.need, t.counted()
		failure.Unknown = len(h.members) - failure.Granted
	}
	failure.causes = slices.Insert(failure.causes, 0, error(ErrNotAcquired))
	return nil, failure
}

// startEnter raises the level of the hold, here and on the nodes, and gives it to the handle. A downgrade
// comes before it, and is seen, or after it, and is refused for the level.
func (l *Lock) startEnter(within *Lock, set *settings) (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.validLocked() || within.unlocked.Load() {
		return nil, &Error{Op: "lock", Names: l.names, causes: []error{ErrNotAcquired, ErrLost}}
	}
	if err := h.refuseUpgradeLocked(set, l.names); err != nil {
		return nil, err
	}
	t := newTally(len(h.members), h.core.need)
	commands := h.lease.Enter(h.core.clock.Now(), nil)
	l.level = h.lease.Level()
	h.inner = append(h.inner, l)
	h.carryOutLocked(commands, t)
	return t, nil
}

// backOut undoes startEnter on every node, even if the request has not arrived there.
func (l *Lock) backOut() {
	h := l.hold
	l.unlocked.Store(true)
	defer l.cancel(ErrNotAcquired)
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.level > 0 && h.lease.Phase() == lease.Held {
		h.lowerLocked(l)
	}
}

// lowerLocked ends an inner handle: it lowers the level by one, here and on the nodes.
func (h *hold) lowerLocked(l *Lock) *tally {
	h.inner = slices.DeleteFunc(h.inner, func(other *Lock) bool { return other == l })
	return h.releaseLocked(h.lease.Leave(nil), 0)
}

// Extend raises the lease on the nodes to at least lease from now; lease is at most the nodes' max
// lease. It returns nil when as many nodes have confirmed as the quorum size. Otherwise the error is
// an [*Error]. It wraps [ErrUnavailable] when too few nodes confirmed, [ErrLost], [ErrNotHeld] or
// [ErrClosed] when the lock is not held, [ErrInvalid] for a lease out of bounds, or the context's
// error. Nodes that confirm after that still move the deadline, always to a later time. If ctx had ended
// before the call, or the error wraps ErrInvalid, no node was asked.
//
// ctx may be the lock's own context: see [Lock.Unlock].
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	if lease < minLease || lease > l.hold.core.maxLease {
		return invalidf("extend", l.names, "lease %v is not between %v and the nodes' max lease %v",
			lease, minLease, l.hold.core.maxLease)
	}
	return l.extend(ctx, "extend", lease)
}

func (l *Lock) extend(ctx context.Context, op string, lasts time.Duration) error {
	t, err := l.startExtend(contextError(ctx), op, lasts)
	if err != nil {
		return err
	}
	return l.confirm(ctx, op, t)
}

// confirm waits until enough nodes have confirmed a change to a lock that stays held.
func (l *Lock) confirm(ctx context.Context, op string, t *tally) error {
	if err := l.await(ctx, op, t); err != nil {
		return err
	}
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	return l.usableLocked(op) // enough nodes have confirmed, but perhaps after the lock was lost
}

// startExtend asks all nodes, unless the call's context has ended with these errors.
func (l *Lock) startExtend(ended []error, op string, lasts time.Duration) (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.usableLocked(op); err != nil {
		return nil, err
	}
	if ended != nil {
		return nil, &Error{Op: op, Names: l.names, causes: ended}
	}
	t := newTally(len(h.members), h.core.need)
	commands := h.lease.Extend(h.core.clock.Now(), lasts, nil)
	h.carryOutLocked(commands, t)
	return t, nil
}

// Unlock lowers the level, or releases the lock when this is the handle that acquired it. It sends
// the release to all nodes that may have the lock, even if ctx has ended: the end of ctx ends only
// the waiting.
//
// Unlock returns nil when as many nodes have confirmed as the quorum size; the others get the
// release when they answer again. A node that was never asked for the lock counts as one that has
// confirmed, and gets no release. Else the error is an [*Error]. It wraps [ErrLost] when the lock
// had been lost, [ErrNotHeld] when this handle or the one that acquired the lock was unlocked
// before, [ErrUnavailable] when too few nodes confirmed, [ErrClosed] when the nodes were closed
// before, and the context's error if it ended the waiting: then the release is sent, but not
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
		h.core.history.Released(l.queueName().hash(), heard, h.core.clock.Now())
	}
	if l.slots != nil {
		h.core.history.ReleasedSlot(l.queueName().hash(), l.slots[0])
	}
	if failed, _ := err.(*Error); failed != nil {
		if !errors.Is(failed, ErrUnavailable) { // then it is the end of ctx
			failed.causes = slices.Insert(failed.causes, 0, error(detail("release sent, not confirmed")))
		}
		if wasOrphaned {
			failed.causes = slices.Insert(failed.causes, 0, ErrClosed)
		}
	}
	if err == nil && !wasOrphaned && t.wasLost(h.core.need) {
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
// the schedule. It reports whether the lock stays on the nodes. The error says that the lock lingers
// already, or that the Locker is closed, which leaves the lock to its lease.
func (l *Lock) startLinger() (lingers bool, err error) {
	h := l.hold
	if h.set.minHold == 0 {
		return false, nil
	}
	defer func() { // with mu unlocked
		if !lingers {
			return
		}
		if err == nil {
			defer h.core.schedule.Hasten(&h.entry, h.lease.MinHoldEnd()) // also if a context of the caller's panics
		}
		h.endContexts()
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
	h.carryOutLocked(commands, nil)
	return true, err
}

// startRelease ends the lock and its contexts, and sends the release. t counts the replies. The
// error says why there is nothing to release.
func (l *Lock) startRelease() (t *tally, wasOrphaned bool, err error) {
	h := l.hold
	var room [8]lease.Command
	releases, keepers, wasOrphaned, err := l.endLease(room[:0])
	defer func() { // also if a context of the caller's panics
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			t = h.releaseLocked(releases, keepers)
		}
	}()
	h.endContexts()
	return nil, wasOrphaned, err
}

// endLease ends the lease. It appends the releases, which are due when the contexts have ended.
func (l *Lock) endLease(room []lease.Command) (releases []lease.Command, keepers uint64, wasOrphaned bool, err error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	wasOrphaned = h.lease.Phase() == lease.Orphaned
	now := h.core.clock.Now()
	if !wasOrphaned {
		err = l.usableAtLocked("unlock", now)
	}
	l.unlocked.Store(true)
	keepers = h.lease.KeepersAt(now)
	return h.carryOutLocked(h.lease.Unlock(now, room), nil), keepers, wasOrphaned, err
}

// unlockInner is Unlock of the handle of a re-entry.
func (l *Lock) unlockInner(ctx context.Context) error {
	t, err := l.startLower()
	l.cancel(l.Err()) // why the lock has ended, if it has
	if err != nil {
		return err
	}
	// The hold's own level decides, not the replies. The wait is for operators, so that Inspect finds
	// the new level on the nodes.
	awaitDecided(ctx, t)
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.Phase() == lease.Expired {
		return &Error{Op: "unlock", Names: l.names, causes: []error{h.ended}}
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
	return h.lowerLocked(l), nil
}
