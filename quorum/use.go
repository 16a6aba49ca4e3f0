package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// heldBy returns the lock over the names that the flow of ctx holds, nil for none. A flow is the
// calls whose contexts derive from a lock's context. The error wraps ErrInvalid for a flow that
// holds some of the names only, or holds them through several locks: it would wait for itself.
func (l *Locker) heldBy(ctx context.Context, op string, names []string) (*Lock, error) {
	var within *Lock
	for i, name := range names {
		found := innermost(ctx)
		for found != nil && !found.covers(name, l.engine) {
			found = found.outer
		}
		switch {
		case i > 0 && (found == nil) != (within == nil):
			missing := name
			if within == nil {
				missing = names[0]
			}
			return nil, invalidf(op, names,
				"this context holds some of the names already, but not %.64q: it would wait for itself", missing)
		case within != nil && found.first != within.first:
			return nil, invalidf(op, names, "this context holds the names through several locks: enter each by itself")
		}
		within = found
	}
	return within, nil
}

// covers reports whether the handle's lock is one of that engine, over the name, and valid.
func (l *Lock) covers(name string, by *engine.Engine) bool {
	return l.locker.engine == by && l.target.Slots == nil && slices.Contains(l.first.target.Names, name) && l.Valid()
}

// enter enters the lock again: its depth rises by one, and a quorum must confirm that it keeps the lock. given is the
// parent of the handle's context, and ctx bounds the waiting.
func (within *Lock) enter(given, ctx context.Context, set *settings, names []string) (*Lock, error) {
	if other := within.locker.set.differences(set); other != "" {
		return nil, invalidf("lock", names,
			"this context holds it with other settings, which entering it again does not change: %s", other)
	}
	all := new(struct {
		Lock
		handle engine.Handle
	})
	inner := &all.Lock
	inner.handle, inner.locker, inner.first = &all.handle, within.locker, within.first
	inner.target.Names = slices.Clone(names)
	inner.setContext(given)
	entered := false
	defer func() {
		if !entered { // even if the caller's context panics
			inner.handle.BackOut()
		}
	}()
	t, before := within.handle.Enter(inner.handle, &inner.scope, set.terms.Mode)
	switch {
	case t != nil:
	case before.Mode == lease.Read && !set.isReader():
		return nil, invalidf("lock", names, "this context holds it as a reader, and a reader cannot become a writer: it would wait for itself, "+
			"and two such readers for each other. Unlock it first")
	default:
		return nil, &Error{Op: "lock", Names: inner.target.Names, causes: []error{ErrNotAcquired, whyEnded(before)}}
	}
	err := inner.awaitReplies(ctx, "lock", t)
	if err == nil && inner.Valid() && ctx.Err() == nil {
		entered = true
		return inner, nil
	}
	inner.handle.BackOut().AwaitFor(ctx, engine.Grace) // what nodes reply meanwhile may make the error permanent
	return nil, inner.notEntered(ctx, err, t)
}

// notEntered returns the error of a re-entry that failed: err, or if that is nil, the end of the lock or of ctx.
func (l *Lock) notEntered(ctx context.Context, err error, t *engine.Tally) *Error {
	failure, _ := err.(*Error)
	if failure == nil {
		failure = &Error{Op: "lock", Names: slices.Clone(l.target.Names), causes: engine.EndOf(ctx)}
		if failure.causes == nil {
			failure.causes = []error{whyEnded(l.first.handle.Status())}
		}
	}
	if failure.Nodes != nil || l.first.handle.Status().Holds() { // otherwise the nodes do not matter
		said := t.Result()
		if !said.Enough && engine.IsOverdue(failure.causes) {
			failure.causes = slices.Insert(failure.causes, 0, error(ErrUnavailable))
		}
		failure.Nodes = nil
		failure.addNodes(said.Failed...)
		failure.Quorum, failure.Granted = l.locker.engine.Quorum.Need, said.Counted
		failure.Unknown = len(l.locker.engine.Nodes) - failure.Granted
	}
	failure.causes = slices.Insert(failure.causes, 0, error(ErrNotAcquired))
	return failure
}

// whyEnded returns why a lock that was held a moment ago cannot be entered.
func whyEnded(s engine.Status) error {
	switch {
	case s.Phase == lease.Orphaned:
		return ErrClosed
	case s.Phase != lease.Expired && (s.Unlocked || s.Phase != lease.Held): // the handle, or the one that acquired the lock
		return ErrNotHeld
	}
	return ErrLost
}

// Extend raises the lease on the nodes, so that it ends no sooner than lease from now. lease is from 10ms to the
// nodes' max lease. Extend returns nil when a quorum has confirmed. Otherwise the error is an [*Error]. It wraps
// [ErrUnavailable] when too few nodes confirmed, [ErrLost], [ErrNotHeld] or [ErrClosed] when the lock is not held,
// [ErrInvalid] for a lease out of bounds, or the context's error. Nodes that confirm after that still move the
// deadline, always to a later time. If ctx had ended before the call, or the error wraps ErrInvalid, no node was
// asked.
//
// ctx may be the lock's own context: see [Lock.Unlock].
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	if lease < minLease || lease > l.locker.engine.MaxLease {
		return invalidf("extend", l.target.Names, "lease %v is not between %v and the nodes' max lease %v",
			lease, minLease, l.locker.engine.MaxLease)
	}
	return l.extend(ctx, "extend", lease)
}

// extend asks all nodes, unless the call's context has ended.
func (l *Lock) extend(ctx context.Context, op string, lasts time.Duration) error {
	if ended := engine.EndOf(ctx); ended != nil {
		return cmp.Or(l.unusable(op, l.handle.Status()), error(&Error{Op: op, Names: l.target.Names, causes: ended}))
	}
	t, before := l.handle.Extend(lasts)
	if t == nil {
		return l.unusable(op, before)
	}
	return l.confirm(ctx, op, t)
}

// confirm waits until enough nodes have confirmed a change to a lock that stays held.
func (l *Lock) confirm(ctx context.Context, op string, t *engine.Tally) error {
	if err := l.awaitReplies(ctx, op, t); err != nil {
		return err
	}
	return l.unusable(op, l.handle.Status()) // enough nodes have confirmed, but perhaps after the lock was lost
}

// Unlock lowers the depth, or releases the lock when this is the handle that acquired it. It sends the release to all
// nodes that may have the lock, even if ctx has ended: the end of ctx ends only the waiting. Nodes that do not answer
// delay it by about their timeout ([node.WithTimeout]), and only while the outcome depends on them.
//
// Unlock returns nil when a quorum has confirmed; the others get the release when they answer again. Otherwise the
// error is an [*Error]. It wraps [ErrLost] when the lock had been lost, [ErrNotHeld] when this handle or the one that
// acquired the lock was unlocked before, [ErrUnavailable] when too few nodes confirmed, [ErrClosed] when the nodes
// were closed before, and the context's error if it ended the waiting: then the release is sent, but not confirmed.
// In each case the handle's context has ended. Once the lock is released, no renewal is sent.
//
// Before the end of the min hold ([WithMinHold]), Unlock asks no node and returns nil: the Locker releases the lock
// at that end. If the Locker was closed, the error wraps [ErrClosed], and the lock's lease ends by itself.
//
// ctx may be the lock's own context, or derived from it. Unlock ends that context, but goes on waiting until the
// deadline of ctx, or until the context that was given to [Locker.Lock] ends.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.handle.Depth() > 1 {
		return l.unlockInner(ctx)
	}
	if lingers, before := l.handle.Linger(); lingers {
		l.runReleasedHook()
		return l.unusable("unlock", before)
	}
	t, before := l.handle.Release()
	if t == nil {
		return l.unusable("unlock", before)
	}
	l.runReleasedHook()
	err := l.awaitReplies(ctx, "unlock", t)
	l.noteReleased(t)
	wasOrphaned := before.Phase == lease.Orphaned
	if failed, _ := err.(*Error); failed != nil {
		if !errors.Is(failed, ErrUnavailable) { // then it is the end of ctx
			failed.causes = slices.Insert(failed.causes, 0, error(detail("released, not confirmed: the context ended first")))
		}
		if wasOrphaned {
			failed.causes = slices.Insert(failed.causes, 0, ErrClosed)
		}
	}
	if err == nil && !wasOrphaned && t.Result().WasLost {
		causes := []error{ErrLost, detail("nodes had forgotten it, or given it to another")}
		return &Error{Op: "unlock", Names: l.target.Names, causes: causes}
	}
	return err
}

// noteReleased records for the next calls of this process who waits, and which slot is free.
func (l *Lock) noteReleased(t *engine.Tally) {
	if l.target.Slots != nil {
		l.locker.room.waitlist.History.ReleasedSlot(l.target.Hash, l.target.Slots[0])
	}
	if heard := t.Result().Heard; heard > 0 {
		l.locker.room.waitlist.History.Released(l.target.Hash, heard, l.locker.engine.Clock.Now())
	}
}

// runReleasedHook counts the release, and calls the Released hook.
func (l *Lock) runReleasedHook() {
	l.locker.meter.released.Add(1)
	if hook := l.locker.set.hooks.Released; hook != nil {
		hook(l)
	}
}

// unlockInner is Unlock of the handle of a re-entry.
func (l *Lock) unlockInner(ctx context.Context) error {
	t, before := l.handle.Lower()
	l.handle.EndContext(l.Err()) // why the lock has ended, if it has
	if t == nil {
		return l.unusable("unlock", before)
	}
	// The hold's own depth decides, not the replies. The wait is for operators, so that Inspect finds
	// the new depth on the nodes.
	awaitDecided(ctx, t)
	if s := l.handle.Status(); s.Phase == lease.Expired {
		return &Error{Op: "unlock", Names: l.target.Names, causes: []error{s.Ended}}
	}
	return nil
}

// Downgrade turns a writer's lock into a reader's, without a gap: no other writer gets the name in between. Finish
// the writes first: from the call on the lock counts as a reader's, whatever Downgrade returns. The lock keeps its
// token, its context and its renewal. A reader's lock stays as it is.
//
// Downgrade returns nil when a quorum has confirmed. Otherwise the error is an [*Error]. It wraps [ErrUnavailable] if
// too few nodes confirmed: the lock is then held for reading, and the nodes that did not confirm keep other readers
// out until a renewal reaches them. It wraps [ErrLost], [ErrNotHeld] or [ErrClosed] if the lock is not held, or the
// context's error. It wraps [ErrInvalid], and nothing changes, for a lock over several names and for a writer's lock
// that was entered again and not left. With a fixed lease, nodes that did not confirm keep readers out until the
// lease ends. The masters' user needs the right to use sorted sets: if masters refuse the downgrade permanently, the
// lock is lost when its lease ends.
//
// ctx may be the lock's own context: see [Lock.Unlock].
func (l *Lock) Downgrade(ctx context.Context) error {
	t, before := l.handle.Downgrade()
	switch err := l.unusable("downgrade", before); {
	case t != nil:
		return l.confirm(ctx, "downgrade", t)
	case err != nil:
		return err
	case len(l.first.target.Keys) > 1:
		return invalidf("downgrade", l.target.Names, "a lock over %d names is not downgraded", len(l.first.target.Keys))
	}
	return invalidf("downgrade", l.target.Names, "the lock was entered again, and its inner handles may write: unlock them first")
}
