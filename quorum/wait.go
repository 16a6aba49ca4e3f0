package quorum

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	maxNameLen = 4096
	maxNames   = 64
)

// Lock waits until it holds all the names, or ctx is done, and keeps them until Unlock: it renews them in the background
// unless the lease is fixed. ctx is also the parent of the lock's context, so it should span the work, not only the waiting:
// when it ends the lock's context ends, but the lock is held, and renewed, until Unlock.
//
// With the context of a lock that is held it enters that lock again, if it is asked for names that are all that lock's; other
// names are locked afresh, and a mix is ErrInvalid. So a lock's context must not be given to a goroutine that should wait its
// turn: it would be let in. A lock that is entered again stays as it is: a fixed lease ends when it would have, and a Locker made by
// With of another lease (its length, or fixed or not), max hold or drift gets ErrInvalid.
//
// The error is a *Error. It wraps ErrNotAcquired and the reason of the last attempt (ErrHeld, ErrQuarantined or
// ErrUnavailable), with the context's error, or at once ErrInvalid for names that cannot be locked, ErrClosed, or the
// *node.Errors when too few nodes are left whose errors could pass by themselves (a wrong password, a key of another type
// at the name).
func (l *Locker) Lock(ctx context.Context, names ...string) (*Lock, error) {
	names, within, err := l.prepare(ctx, "lock", names)
	if err != nil {
		return nil, err
	}
	if within != nil {
		return l.enter(ctx, within, names)
	}
	v := visit{locker: l, names: names, key: keyOf(names)}
	defer v.end()
	if failed := v.acquire(ctx); failed != nil {
		return nil, failed
	}
	return l.acquired(v.handOut()), nil
}

// visit is one call of Lock that asks the nodes. What it has begun ends with it, also when code of the caller's panics on the way.
type visit struct {
	locker *Locker
	names  []string
	key    queueKey
	first  bool    // it is the one that queues.trying tells of
	waiter *waiter // when it waits
	lock   *Lock   // that it has, and has not handed out
}

func (v *visit) end() {
	if v.lock != nil {
		v.lock.hold.drop()
	}
	if v.waiter != nil {
		defer v.waiter.alarm.Stop()
		v.waiter.leave(nil, true)
	}
	if v.first {
		v.locker.core.queues.tried(v.key, nil)
	}
}

func (v *visit) handOut() *Lock {
	lock := v.lock
	v.lock = nil
	return lock
}

// acquire asks without waiting, if nobody waits for the names, and then waits.
func (v *visit) acquire(ctx context.Context) *Error {
	l := v.locker
	var before *refusal
	var how approach
	if how, v.first = l.tryFirst(v.key); v.first {
		v.lock, before = l.attempt(ctx, v.names, how)
		if v.lock != nil {
			v.first = false
			l.core.queues.tried(v.key, v.lock)
			return nil
		}
		if ctx.Err() != nil || before.err.permanent(len(l.core.nodes)) {
			return before.err
		}
		before.how = how
		if !errors.Is(before.err, ErrHeld) {
			l.set.logger.Warn("quorumlock: waiting for nodes", "names", v.names, "error", before.err)
		}
	}
	v.first = false
	v.waiter = l.join(v.key, v.names, before)
	return v.wait(ctx)
}

// TryLock is Lock in one attempt, without waiting for a holder to let go: it takes a round trip or two, and about a node's
// time-out where too many nodes do not answer. The errors are those of Lock.
func (l *Locker) TryLock(ctx context.Context, names ...string) (*Lock, error) {
	names, within, err := l.prepare(ctx, "lock", names)
	if err != nil {
		return nil, err
	}
	if within != nil {
		return l.enter(ctx, within, names)
	}
	lock, r := l.attempt(ctx, names, everyone)
	if lock == nil {
		return nil, r.err
	}
	return l.acquired(lock), nil
}

func (l *Locker) acquired(lock *Lock) *Lock {
	if hook := l.set.hooks.Acquired; hook != nil {
		told := false
		defer func() {
			if !told {
				lock.hold.drop() // nobody would have it
			}
		}()
		hook(lock)
		told = true
	}
	return lock
}

// prepare refuses what cannot be locked, and finds the lock that ctx holds over the names, if any.
func (l *Locker) prepare(ctx context.Context, op string, names []string) ([]string, *Lock, error) {
	if err := l.refuse(op, names); err != nil {
		return nil, nil, err
	}
	if ended := contextError(ctx); ended != nil {
		return nil, nil, &Error{Op: op, Names: names, causes: append([]error{ErrNotAcquired}, ended...)}
	}
	within, err := l.heldBy(ctx, op, names)
	return slices.Clone(names), within, err
}

// refuse says why names cannot be locked by this Locker, if so.
func (l *Locker) refuse(op string, names []string) error {
	if l.bad != nil {
		return &Error{Op: op, Names: names, causes: []error{l.bad}}
	}
	if l.core.isClosed() {
		e := &Error{Op: op, Names: names, causes: []error{ErrClosed}}
		if op == "lock" {
			e.causes = slices.Insert(e.causes, 0, ErrNotAcquired)
		}
		return e
	}
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > maxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), maxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case strings.HasPrefix(name, scripts.Prefix):
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys", i+1, scripts.Prefix)
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}

// heldBy finds the lock over the names that the flow of ctx holds. A flow that holds some of them, or holds them through
// several locks, would wait for itself: ErrInvalid.
func (l *Locker) heldBy(ctx context.Context, op string, names []string) (*Lock, error) {
	var within *Lock
	missing := ""
	for i, name := range names {
		found := innermost(ctx)
		for ; found != nil; found = found.outer {
			if found.hold.core == l.core && found.hold.covers(name) && found.Valid() {
				break
			}
		}
		switch {
		case found == nil && within != nil || found != nil && within == nil && i > 0:
			if found == nil {
				missing = name
			} else {
				missing = names[0]
			}
			return nil, invalidf(op, names, "this flow holds some of the names already, but not %.64q: it would wait for itself", missing)
		case found != nil && within != nil && found.hold != within.hold:
			return nil, invalidf(op, names, "this flow holds the names through several locks: enter each by itself")
		}
		within = found
	}
	return within, nil
}

func (h *hold) covers(name string) bool {
	return slices.Contains(h.first.names, name)
}

func scriptNames(names []string) []scripts.Name {
	all := make([]scripts.Name, len(names))
	for i, name := range names {
		all[i] = scripts.NewName(name)
	}
	return all
}
