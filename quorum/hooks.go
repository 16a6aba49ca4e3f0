package quorum

import (
	"context"
	"reflect"
	"time"
)

// Hooks are functions that the Locker calls, for metrics and traces. A nil hook costs nothing.
//
// Acquired, Released, LockStart, Attempt and LockEnd run in the goroutine that locks or unlocks,
// and delay it. If one of them panics or ends its goroutine, the lock, if any, is released, and no
// further hook is called for that call. A lock that was handed over ends with its lease then: nobody has the ticket.
//
// Lost runs in a goroutine of its own for each lock that is lost, when its contexts have ended.
// Renewing, Renewed and Repaired run one at a time, in the order of the events, in a goroutine of
// the Locker. A hook that blocks there delays no renewal, but while 8,192 events wait for it,
// further ones are dropped ([Stats].EventsDropped). [Locker.Close] waits for these four, and so for its whole bound if one
// of them calls it: say go locker.Close() there.
//
// Acquired is called once for each lock, and then at most one of Released and Lost. Released is
// called when the lock is unlocked, before the nodes have confirmed (Unlock may still return an
// error), or handed over. Lost may be called before Acquired has returned. Re-entry and Close call no
// hook.
type Hooks struct {
	Acquired func(*Lock)
	Released func(*Lock)
	Lost     func(l *Lock, err error) // err wraps ErrLost, and a *node.Error for each node that failed

	// LockStart is called when a call that acquires begins (Lock, TryLock, Do, TakeOver, and the calls of RWLock and of
	// a semaphore), unless it is refused before any attempt: its arguments are not valid, its context has ended, or the
	// Locker is closed. Attempt and LockEnd of the same call get the context that it
	// returns, with a span, say. The call itself and the lock keep ctx. Without LockStart, the hooks get ctx.
	LockStart func(ctx context.Context, names []string) context.Context
	// Attempt is called after each attempt of the call.
	Attempt func(ctx context.Context, e AttemptEvent)
	// LockEnd is called before the call returns, and before Acquired.
	LockEnd func(ctx context.Context, e LockEvent)

	// Renewing is called for a held lock when its renewals go to the nodes: every third of the
	// lease, and sooner after one that fell short. left is how long the lock is still valid if no
	// node confirms.
	Renewing func(l *Lock, left, lease time.Duration)
	// Renewed is called for each node's reply to the renewals of one or more locks.
	Renewed func(e RenewalEvent)
	// Repaired is called for each repair: a node that had forgotten the lock, or never granted it, was asked to grant
	// it again. It is called when the node replies, or at once if the node is down.
	Repaired func(e RepairEvent)
}

// AttemptEvent is one attempt at a lock.
type AttemptEvent struct {
	Names []string // not to be changed
	// Slots are the slots of the semaphore Names[0] that the attempt asked for, not to be changed. It is nil for a
	// lock over names, and if too few slots were free to ask for any.
	Slots []int
	// Outcome is "acquired", or says why the attempt failed: "held" ([ErrHeld]), "quarantined"
	// ([ErrQuarantined]), "unavailable" ([ErrUnavailable]), "canceled" if the call's context ended
	// before a reason was known, or "failed" for any other reason, such as [ErrClosed] or grants that
	// came too late for the lease.
	Outcome string
	Err     error // why it failed, or nil

	// The nodes' answers when the outcome was certain, as in [Error]. Nodes that had not replied by then
	// count as Unknown, even if the attempt has become a lock.
	Granted, Refused, Quarantined, Unknown int

	// WriteBacks is how many nodes the token was written back to.
	WriteBacks int
	// Probed: the attempt asked one node first (docs/design.md, §4.7).
	Probed bool
	// Duration is from the first request until the attempt has become a lock, or is undone.
	Duration time.Duration
}

// LockEvent is the end of a call that acquires, or of the locking in Do: see [Hooks].LockStart.
type LockEvent struct {
	Names    []string // not to be changed
	Outcome  string   // as in [AttemptEvent]
	Lock     *Lock    // nil if Err is not
	Err      error
	Attempts int
	Duration time.Duration // of the call
}

// RenewalEvent counts the results in one node's reply to the renewals of one or more locks.
type RenewalEvent struct {
	Node      string
	Renewed   int
	Forgotten int   // the key was gone
	Taken     int   // the key was another owner's
	Failed    int   // an error, or no reply: the node keeps the locks until their last lease ends there
	Err       error // a *node.Error if the call failed
}

// RepairEvent is one node's reply to a repair, or why the node was not asked.
type RepairEvent struct {
	Node string
	Lock *Lock
	Err  error // why the node did not grant the lock again: a *node.Error, or nil
}

// WithHooks adds hooks to the Locker's, also in [Locker.With]. Hooks of several WithHooks are called in order, but LockEnd in
// reverse. Each LockStart gets the context that the one before it has returned.
func WithHooks(h Hooks) Option { return func(s *settings) { s.hooks = s.hooks.join(h) } }

func (h Hooks) join(next Hooks) Hooks {
	return Hooks{
		Acquired: both(h.Acquired, next.Acquired, func(l *Lock) { h.Acquired(l); next.Acquired(l) }),
		Released: both(h.Released, next.Released, func(l *Lock) { h.Released(l); next.Released(l) }),
		Lost:     both(h.Lost, next.Lost, func(l *Lock, err error) { h.Lost(l, err); next.Lost(l, err) }),
		LockStart: both(h.LockStart, next.LockStart, func(ctx context.Context, names []string) context.Context {
			return next.LockStart(h.LockStart(ctx, names), names)
		}),
		Attempt: both(h.Attempt, next.Attempt, func(ctx context.Context, e AttemptEvent) { h.Attempt(ctx, e); next.Attempt(ctx, e) }),
		LockEnd: both(h.LockEnd, next.LockEnd, func(ctx context.Context, e LockEvent) { next.LockEnd(ctx, e); h.LockEnd(ctx, e) }),
		Renewing: both(h.Renewing, next.Renewing, func(l *Lock, left, lease time.Duration) {
			h.Renewing(l, left, lease)
			next.Renewing(l, left, lease)
		}),
		Renewed:  both(h.Renewed, next.Renewed, func(e RenewalEvent) { h.Renewed(e); next.Renewed(e) }),
		Repaired: both(h.Repaired, next.Repaired, func(e RepairEvent) { h.Repaired(e); next.Repaired(e) }),
	}
}

// both returns the hook that calls two, or if one of them is nil the other.
func both[F any](first, second, calls F) F {
	switch {
	case reflect.ValueOf(first).IsNil():
		return second
	case reflect.ValueOf(second).IsNil():
		return first
	}
	return calls
}
