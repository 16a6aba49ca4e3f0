package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/words"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lock is a handle on a lock that was acquired. It is safe for concurrent use. Entering the lock
// again through its context makes another handle, of a higher depth.
type Lock struct {
	handle *engine.Handle
	locker *Locker      // with which the lock was acquired
	first  *Lock        // the handle that acquired the lock
	target queue.Target // of a handle of a re-entry, its names alone
	outer  *Lock        // the innermost handle in the context given to Lock
	scope  lockContext
}

// newLock returns the lock that an attempt is to acquire. ctx is the one given to Lock.
func (l *Locker) newLock(ctx context.Context, at queue.Target) *Lock {
	all := new(struct { // one allocation for all
		Lock
		hold engine.Hold
	})
	lock, hold := &all.Lock, &all.hold
	hold.Init(l.engine, &l.set.terms, at.Keys, at.Predecessor, &lock.scope)
	lock.handle, lock.locker, lock.first, lock.target = hold.First(), l, lock, at
	lock.setContext(ctx)
	return lock
}

// setContext sets the parent of the lock's context: the one given to Lock.
func (l *Lock) setContext(parent context.Context) {
	l.outer = innermost(parent)
	l.scope = lockContext{parent, l}
}

// lockOf returns the lock that an attempt has acquired.
func lockOf(h *engine.Hold) *Lock { return innermost(h.First().Context()) }

func init() { testlock.Context = newTestContext }

// newTestContext returns the context of a lock that no node has granted: it is over no nodes, so that
// none must confirm anything.
func newTestContext(parent context.Context, token uint64, names []string) context.Context {
	set := defaults()
	e := engine.New(engine.Config{MaxLease: node.DefaultMaxLease, Clock: set.Clock, UUID: "test"})
	by := &Locker{engine: e, set: &set, room: &waitingRoom{holders: &holders.Holders{}}, meter: new(meter)}
	set.terms.Events = (*observer)(by)
	l := by.newLock(parent, queue.Target{Names: names, Keys: scripts.NewNames(nil, names)})
	l.handle.Hold().InitHeld(token)
	return l.Context()
}

// Names returns the names that were given for this handle: for slots, the name of the semaphore.
func (l *Lock) Names() []string { return slices.Clone(l.target.Names) }

// Owner returns the owner's id, "<locker uuid>:<number>", as the nodes store it.
func (l *Lock) Owner() string { return l.handle.Hold().Owner().String() }

// Token returns the fencing token: strictly greater for each successive holder of a name (readers at the same time may
// share one), below 2^52, the same for every depth. Hand it to the resource that the lock protects, which must refuse
// lower tokens than it has seen.
func (l *Lock) Token() uint64 { return l.handle.Hold().Token() }

// Depth returns how many times the holder has entered the lock, 0 when it is no longer held.
// [Lock.Unlock] of the handle that acquired the lock releases it at any depth; Unlock of the other
// handles then returns [ErrNotHeld].
func (l *Lock) Depth() int {
	if s := l.handle.Status(); s.Valid {
		return s.Depth
	}
	return 0
}

// Shared reports whether other readers may hold the name as well: the lock is a reader's, or was
// downgraded.
func (l *Lock) Shared() bool { return l.handle.Status().Mode == lease.Read }

// Slots returns the numbers of the lock's slots in ascending order, from 0 to n−1; nil for a lock that is no
// slot of a semaphore. Nobody else has a number while the lock is held: it can be a worker's number.
func (l *Lock) Slots() []int { return slices.Clone(l.target.Slots) }

// Context returns a context that ends when the lock can no longer be trusted, by the local clock and without needing a
// packet (earlier with [WithStopBefore]), or when it is unlocked. Timers are late after a pause of the process: then
// [Lock.Valid] is right first. It is derived from the context given to [Locker.Lock], and ends with that too. Its
// [context.Cause] is an error that wraps [ErrLost], or [ErrReleased], [ErrHandedOver], [ErrClosed] or the parent's cause.
func (l *Lock) Context() context.Context { return l.handle.Context() }

// Deadline returns the instant until which the holder may rely on the lock. Renewal moves it. It is the zero time if
// too few nodes keep the lock, or the Locker was closed. After Unlock it says nothing.
func (l *Lock) Deadline() time.Time {
	s := l.handle.Status()
	if s.Deadline == clock.Never {
		return time.Time{}
	}
	return time.Now().Add(s.Deadline.Sub(s.Now))
}

// Valid reports whether the lock is held. It reads the clock, so it is right even after the process
// was paused.
func (l *Lock) Valid() bool { return l.handle.Status().Holds() }

// Err returns nil while the lock is held, and otherwise why it is not: an error that wraps [ErrLost], or
// [ErrReleased], [ErrHandedOver] or [ErrClosed].
func (l *Lock) Err() error {
	switch s := l.handle.Status(); {
	case s.Phase == lease.Expired:
		return s.Ended
	case s.Cause == lease.HandedOver:
		return ErrHandedOver
	case s.Unlocked || s.Phase == lease.Released || s.Phase == lease.Lingering:
		return ErrReleased
	case s.Phase == lease.Orphaned:
		return ErrClosed
	case !s.Valid:
		return l.overdue("hold", s)
	}
	return nil
}

// unusable returns why the handle does not hold the lock, or nil.
func (l *Lock) unusable(op string, s engine.Status) error {
	switch {
	case s.Cause == lease.HandedOver:
		return &Error{Op: op, Names: l.target.Names, causes: []error{ErrNotHeld, ErrHandedOver}}
	case s.Unlocked || s.Phase == lease.Released || s.Phase == lease.Lingering:
		return &Error{Op: op, Names: l.target.Names, causes: []error{ErrNotHeld}}
	case s.Phase == lease.Expired:
		return &Error{Op: op, Names: l.target.Names, causes: []error{s.Ended}}
	case s.Phase == lease.Orphaned:
		return &Error{Op: op, Names: l.target.Names, causes: []error{ErrClosed}}
	case !s.Valid:
		return l.overdue(op, s)
	}
	return nil
}

// overdue returns the error of a lock whose deadline has passed before the schedule has noticed it.
func (l *Lock) overdue(op string, s engine.Status) *Error {
	return l.first.keptError(op, s.Keepers, ErrLost, losses[lease.DeadlineFound])
}

// keptError returns the error of an operation on a lock that was acquired. It counts the nodes that still keep it.
func (l *Lock) keptError(op string, k engine.Keepers, causes ...error) *Error {
	e := &Error{Op: op, Names: l.target.Names, slots: l.target.Slots, reads: k.Reader, causes: causes,
		Answers: Answers{Quorum: l.locker.engine.Quorum.Need, Granted: k.Kept, Unknown: k.Unknown, kept: true}}
	e.addNodes(k.Errs...)
	return e
}

// awaitReplies waits until t is decided or ctx ends. It returns nil if enough replies count.
func (l *Lock) awaitReplies(ctx context.Context, op string, t *engine.Tally) error {
	ended := awaitDecided(ctx, t)
	said := t.Result()
	if said.Enough {
		return nil
	}
	e := &Error{Op: op, Names: l.target.Names, causes: ended}
	switch s := l.handle.Status(); {
	case s.Phase == lease.Expired:
		e.causes = append(e.causes, s.Ended) // it has the nodes' errors
		return e
	case ended == nil:
		e.causes = append(e.causes, ErrUnavailable)
	}
	e.addNodes(said.Failed...)
	return e
}

// awaitDecided waits until t is decided or ctx ends, and returns the errors of the context that ended the waiting;
// nil for none. A context that ended with its lock does not end the waiting: then the context given to Lock bounds
// it, and the deadline of ctx.
func awaitDecided(ctx context.Context, t *engine.Tally) []error {
	select {
	case <-t.Decided:
		return nil
	case <-ctx.Done():
	}
	l := innermost(ctx)
	if l == nil || !engine.Same(context.Cause(l.Context()), context.Cause(ctx)) {
		return engine.EndOf(ctx)
	}
	given := l.scope.Context // it has ended, too, if that ended the lock's
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		given, cancel = context.WithDeadline(given, deadline)
		defer cancel()
	}
	return awaitDecided(given, t)
}

// guard runs code of the caller's. If that panics or ends the goroutine, the handle is given up, unless it is nil: the call
// returns no lock that a caller could unlock.
func (l *Lock) guard(callersCode func()) {
	returned := false
	defer func() {
		switch {
		case l == nil || returned:
		case l.handle.Depth() > 1:
			l.handle.BackOut()
		default:
			l.handle.Hold().Interrupt()
		}
	}()
	callersCode()
	returned = true
}

// String returns the names, the slots if there are any, whether the lock is a reader's, the token and the
// owner's id. It doesn't say whether the lock is still held: see [Lock.Err].
func (l *Lock) String() string {
	what := words.Quoted(l.target.Names) + words.Slots(l.target.Slots) + words.Reading(l.Shared())
	return fmt.Sprintf("lock %s, token %d, owner %s", what, l.Token(), l.Owner())
}

// LogValue returns what String does, as attributes ([slog.LogValuer]).
func (l *Lock) LogValue() slog.Value {
	all := append(make([]slog.Attr, 0, 4), slog.Any("names", l.Names()))
	if l.target.Slots != nil {
		all = append(all, slog.Any("slots", l.Slots()))
	}
	if l.Shared() {
		all = append(all, slog.Bool("shared", true))
	}
	return slog.GroupValue(append(all, slog.Uint64("token", l.Token()), slog.String("owner", l.Owner()))...)
}
