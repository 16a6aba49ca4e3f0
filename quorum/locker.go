package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// Locker locks names on its nodes. It is safe for concurrent use.
type Locker struct {
	core     *core
	waitlist *queue.List
	set      *settings
	reads    *settings // the same, of readers
	bad      error     // why With refused its options; every call returns it
}

// ID returns the Locker's UUID, the first part of its owners' ids (see [Lock.Owner]). Lockers that
// [Locker.With] makes of it have the same one.
func (l *Locker) ID() string { return l.core.UUID }

// Identity returns which process the Locker belongs to, as it writes to the masters while it holds
// locks.
func (l *Locker) Identity() Identity { return l.core.identity }

// Nodes returns the names of the nodes, in the Locker's order (see [node.Node.Name]).
func (l *Locker) Nodes() []string {
	names := make([]string, len(l.core.Nodes))
	for i, n := range l.core.Nodes {
		names[i] = n.Name()
	}
	return names
}

// Lock waits until it holds all the names, or ctx ends, or the bound of [WithWait] is reached. The
// lock is held until [Lock.Unlock], and renewed in the background unless the lease is fixed. ctx is
// also the parent of the lock's context, so it should span the work, not only the waiting: when ctx
// ends the lock's context ends, but the lock is held, and renewed, until Unlock.
//
// With the context of a held lock, Lock enters that lock again if all the names are its names. It
// locks other names afresh, and returns [ErrInvalid] for a mix. Do not give the lock's context to a
// goroutine that should wait for the lock: it would enter at once. Re-entry does not change the lock:
// a fixed lease is not prolonged, and a Locker that [Locker.With] made with another lease (its
// length, or fixed or not), max hold, min hold or drift gets ErrInvalid.
//
// After a process has unlocked the names, its next call lets waiters of other processes go first, for
// a bounded time, usually some milliseconds.
//
// The error is an [*Error]. When ctx ends it wraps [ErrNotAcquired], the reason of the last
// attempt, if there was one ([ErrHeld], [ErrQuarantined] or [ErrUnavailable]), and the context's
// error. Lock does not wait if the names cannot be locked (ErrInvalid), if the Locker is closed
// ([ErrClosed]), or if too many nodes have an error that does not pass by itself, such as a wrong
// password, or a key of another type at the name (the [*node.Error] of each). These three wrap
// [ErrPermanent]: do not try them again in a loop.
func (l *Locker) Lock(ctx context.Context, names ...string) (*Lock, error) {
	if l.set.wait == 0 {
		return l.TryLock(ctx, names...)
	}
	within, err := l.checkCall(ctx, "lock", names)
	if err != nil {
		return nil, err
	}
	if within != nil {
		until, stop := l.core.bounded(ctx, l.set)
		defer stop()
		return within.enter(until, l.set, names)
	}
	return l.wait(ctx, l.wants(names))
}

// wait waits until it has what is wanted.
func (l *Locker) wait(ctx context.Context, what wanted) (lock *Lock, err error) {
	until, stop := l.core.bounded(ctx, l.set)
	defer func() {
		stopped := false
		defer func() { lock.releaseUnless(&stopped) }()
		stop() // runs the caller's code: to end a context asks its parent
		stopped = true
	}()
	o := l.core.observe(ctx, l.set, what.names)
	held, err := l.await(until, what, o)
	return l.report(o, held, err)
}

// TryLock is [Locker.Lock] in one attempt, without waiting for a release. It takes a round trip or
// two; up to 40 ms more if other processes want the names and the node that it asked first does not
// answer; and about a node's timeout if too many nodes do not answer. The errors are Lock's.
func (l *Locker) TryLock(ctx context.Context, names ...string) (*Lock, error) {
	within, err := l.checkCall(ctx, "lock", names)
	if err != nil {
		return nil, err
	}
	if within != nil {
		return within.enter(ctx, l.set, names)
	}
	return l.try(ctx, wanted{names: names})
}

// try makes one attempt at what is wanted.
func (l *Locker) try(ctx context.Context, what wanted) (*Lock, error) {
	o := l.core.observe(ctx, l.set, what.names)
	o.attempting()
	lock, r := what.attempt(ctx, l.core, l.set, queue.Turn{Approach: waiting.Alone, Published: -1})
	o.attempted(lock, r)
	if lock == nil {
		l.core.describeHolder(ctx, r.err)
		return l.report(o, nil, r.err)
	}
	return l.report(o, lock, nil)
}

// report calls the hooks at the end of a call, and returns its results.
func (l *Locker) report(o *observation, lock *Lock, err error) (*Lock, error) {
	hook := l.set.hooks.Acquired
	if o == nil && hook == nil {
		return lock, err
	}
	returned := false
	defer lock.releaseUnless(&returned)
	o.ended(lock, err)
	if hook != nil && lock != nil {
		hook(lock)
	}
	returned = true
	return lock, err
}

// Do runs fn with the lock and its context while it holds the names. The context ends when the lock
// can no longer be trusted. The functions that fn calls find the lock by [FromContext]. Do returns the
// error of Lock, or the errors of fn and Unlock joined: an error that wraps [ErrLost] says that the lock was
// lost before fn returned. If fn has handed the lock over ([Lock.HandOver]), Do returns fn's error.
func (l *Locker) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error, names ...string) error {
	lock, err := l.Lock(ctx, names...)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

// do runs fn, and unlocks.
func (l *Lock) do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) (err error) {
	defer func() {
		if l.Err() == ErrHandedOver {
			return
		}
		unlockErr := l.Unlock(context.WithoutCancel(ctx))
		if loss := l.Err(); loss != nil && errors.Is(err, loss) && errors.Is(unlockErr, loss) {
			return // fn has returned the cause of its context
		}
		err = oneLine(err, unlockErr)
	}()
	return fn(l.Context(), l)
}

// oneLine joins two errors, either of which may be nil. errors.Join would put a line break between them.
func oneLine(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; %w", first, second)
}

// String names the masters, for people. The form may change.
func (l *Locker) String() string {
	names := make([]string, len(l.core.Nodes))
	for i, n := range l.core.Nodes {
		names[i] = n.Name()
	}
	return "locker over " + strings.Join(names, ", ")
}

// Validate returns the error with which [Locker.Lock] would refuse the names at once, whatever the
// nodes say, or nil. It asks no node. The error wraps [ErrInvalid] for names that cannot be locked and
// for options that [Locker.With] refused, and [ErrClosed] for a Locker that was closed.
func (l *Locker) Validate(names ...string) error { return l.refuse("lock", names) }

// checkCall checks the call, and returns the lock over the names that the flow of ctx holds; nil for
// none.
func (l *Locker) checkCall(ctx context.Context, op string, names []string) (*Lock, error) {
	if err := l.checkStart(ctx, op, names); err != nil {
		return nil, err
	}
	return l.core.heldBy(ctx, op, names)
}

// checkStart returns why a call for the names is refused before any node is asked, or nil.
func (l *Locker) checkStart(ctx context.Context, op string, names []string) error {
	if err := l.refuse(op, names); err != nil {
		return err
	}
	return endedError(ctx, op, names)
}

// endedError returns the error of a call whose context has ended before, or nil.
func endedError(ctx context.Context, op string, names []string) error {
	ended := contextError(ctx)
	if ended == nil {
		return nil
	}
	return &Error{Op: op, Names: slices.Clone(names), causes: append([]error{ErrNotAcquired}, ended...)}
}

// refuse returns why this Locker cannot serve the names, or nil.
func (l *Locker) refuse(op string, names []string) error {
	if err := l.unusable(op, names); err != nil {
		return err
	}
	return checkNames(op, names)
}

// unusable returns why this Locker cannot serve any names, or nil.
func (l *Locker) unusable(op string, names []string) error {
	if l.bad != nil {
		return &Error{Op: op, Names: slices.Clone(names), causes: []error{l.bad}}
	}
	if l.core.IsClosed() {
		e := &Error{Op: op, Names: slices.Clone(names), causes: []error{ErrClosed}}
		if op == "lock" || op == opTakeOver {
			e.causes = slices.Insert(e.causes, 0, ErrNotAcquired)
		}
		return e
	}
	return nil
}

const maxNameLen = 4096

// checkNames returns why the names cannot be locked, or nil.
func checkNames(op string, names []string) error {
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > scripts.MaxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), scripts.MaxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case strings.HasPrefix(name, scripts.Prefix):
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys",
				i+1, scripts.Prefix)
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}
