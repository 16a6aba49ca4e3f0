package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lock is a handle on a lock that was acquired. It is safe for concurrent use. Entering the lock
// again through its context makes another handle, of a higher level.
type Lock struct {
	hold     *hold
	names    []string
	one      [1]string // room for the usual number of names
	slots    []int     // of the semaphore names[0]; nil for a lock that is no slot
	level    int       // 1 for the handle that acquired the lock, more for a re-entry
	outer    *Lock     // the innermost handle in the context given to Lock
	scope    lockContext
	ctx      context.Context
	cancel   context.CancelCauseFunc
	unlocked atomic.Bool
}

// setNames copies the names, which are the caller's.
func (l *Lock) setNames(names []string) {
	l.names = append(l.one[:0], names...)
}

// makeContext makes the lock's context, from the context given to Lock.
func (l *Lock) makeContext(parent context.Context) {
	if waiting, ok := parent.(*waitContext); ok {
		parent = waiting.given
	}
	l.scope = lockContext{parent, l}
	l.ctx, l.cancel = context.WithCancelCause(&l.scope)
}

// lockContext is the parent of a lock's context: the context given to Lock, and the lock as a
// value. It is part of the Lock, because context.WithValue would allocate.
type lockContext struct {
	context.Context
	lock *Lock
}

// waitContext bounds the waiting of a call of Lock by WithWait. It is not the parent of the lock's
// context: the bound does not end the work.
type waitContext struct {
	context.Context
	given context.Context // to Lock
}

type lockKey = testlock.Key

func (c *lockContext) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// innermost returns the handle whose context ctx is, or is derived from; nil for none.
func innermost(ctx context.Context) *Lock {
	switch l := ctx.Value(lockKey{}).(type) {
	case *Lock:
		return l
	case *testlock.Lock:
		return l.Handle(func() any { return newTestLock(l) }).(*Lock)
	}
	return nil
}

// newTestLock returns the handle of a lock that no node has granted: it is over no nodes, so that
// none must confirm anything.
func newTestLock(t *testlock.Lock) *Lock {
	set := defaults()
	c := &core{clock: set.Clock, maxLease: node.DefaultMaxLease, schedule: &schedule.Schedule[*hold]{},
		holders: &holders.Holders{}, closed: make(chan struct{})}
	h := &hold{core: c, set: &set, owner: scripts.NewOwner("test", 1)}
	h.lease.InitHeld(&set.terms, t.Token, c.clock.Now().Add(maxMaxHold))
	h.setNames(t.Names)
	h.entry.Owner = h
	h.first = Lock{hold: h, names: t.Names, level: 1, outer: innermost(t.Parent), ctx: t.Context, cancel: t.End}
	h.first.scope = lockContext{t.Parent, &h.first}
	return &h.first
}

// FromContext returns the innermost lock over the name among those whose context ctx is, or is
// derived from, and that have not been unlocked. It may have been lost: see [Lock.Err]. It finds no
// slots of a semaphore.
func FromContext(ctx context.Context, name string) (*Lock, bool) {
	for l := innermost(ctx); l != nil; l = l.outer {
		if l.slots == nil && slices.Contains(l.names, name) && !l.unlocked.Load() {
			return l, true
		}
	}
	return nil, false
}

// Names returns the names that were given for this handle: for slots, the name of the semaphore.
func (l *Lock) Names() []string { return slices.Clone(l.names) }

// Owner returns the owner's id, "<locker uuid>:<number>", as it stands on the nodes.
func (l *Lock) Owner() string { return l.hold.owner.String() }

// Token returns the fencing token: strictly greater for each successive holder of a name, below
// 2^52, the same for every level. Hand it to the resource that the lock protects, which must refuse
// lower tokens than it has seen.
func (l *Lock) Token() uint64 { return l.hold.lease.Token() }

// Level returns how many times the holder has entered the lock, 0 when it is not held any more.
// [Lock.Unlock] of the handle that acquired the lock releases it at any level; Unlock of the other
// handles then returns [ErrNotHeld].
func (l *Lock) Level() int {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.validLocked() {
		return 0
	}
	return h.lease.Level()
}

// Context returns a context that ends when the lock can no longer be trusted, by the local clock
// and without needing a packet, or when it is unlocked. It is derived from the context given to
// [Locker.Lock], and ends with that too. Its [context.Cause] is an error that wraps [ErrLost], or
// [ErrReleased], [ErrHandedOver], [ErrClosed] or the parent's cause.
func (l *Lock) Context() context.Context { return l.ctx }

// Deadline returns the instant until which the holder may believe that it holds. Renewal moves it.
// It is the zero time when too few nodes keep the lock, or the Locker was closed.
func (l *Lock) Deadline() time.Time {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	deadline := h.lease.Deadline()
	if deadline == clock.Never {
		return time.Time{}
	}
	return time.Now().Add(deadline.Sub(h.core.clock.Now()))
}

// Valid reports whether the lock is held. It reads the clock, so it is right also after the process
// was paused.
func (l *Lock) Valid() bool {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	return l.hold.validLocked() && !l.unlocked.Load()
}

// Err returns nil while the lock is held, and else why it is not: an error that wraps [ErrLost], or
// [ErrReleased], [ErrHandedOver] or [ErrClosed].
func (l *Lock) Err() error {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	switch phase := h.lease.Phase(); {
	case phase == lease.Expired:
		return h.ended
	case h.lease.Cause() == lease.HandedOver:
		return ErrHandedOver
	case l.unlocked.Load() || phase == lease.Released || phase == lease.Lingering:
		return ErrReleased
	case phase == lease.Orphaned:
		return ErrClosed
	case !h.validLocked():
		return h.overdueErrorLocked("hold")
	}
	return nil
}

// usableLocked returns why the handle does not hold the lock, or nil.
func (l *Lock) usableLocked(op string) error { return l.usableAtLocked(op, l.hold.core.clock.Now()) }

func (l *Lock) usableAtLocked(op string, now clock.Instant) error {
	h := l.hold
	switch phase := h.lease.Phase(); {
	case h.lease.Cause() == lease.HandedOver:
		return &Error{Op: op, Names: l.names, causes: []error{ErrNotHeld, ErrHandedOver}}
	case l.unlocked.Load() || phase == lease.Released || phase == lease.Lingering:
		return &Error{Op: op, Names: l.names, causes: []error{ErrNotHeld}}
	case phase == lease.Expired:
		return &Error{Op: op, Names: l.names, causes: []error{h.ended}}
	case phase == lease.Orphaned:
		return &Error{Op: op, Names: l.names, causes: []error{ErrClosed}}
	case !h.lease.Valid(now):
		return h.overdueErrorLocked(op)
	}
	return nil
}

// overdueErrorLocked returns the error of a lock whose deadline has passed before the schedule has
// noticed it.
func (h *hold) overdueErrorLocked(op string) *Error {
	return h.keepersErrorLocked(op, ErrLost, detail("the deadline has passed"))
}

// await waits until t is decided or ctx ends. It returns nil if enough replies count.
func (l *Lock) await(ctx context.Context, op string, t *tally) error {
	ended := awaitDecided(ctx, t)
	enough, nodes := t.result()
	if enough {
		return nil
	}
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &Error{Op: op, Names: l.names, Nodes: nodes, causes: ended}
	switch {
	case h.lease.Phase() == lease.Expired:
		e.causes, e.Nodes = append(e.causes, h.ended), nil // the reason has the nodes' errors
	case ended == nil:
		e.causes = append(e.causes, ErrUnavailable)
	}
	return e
}

// awaitDecided waits until t is decided or ctx ends, and returns the errors of the context that
// ended the waiting; nil for none. A context that ended because its lock did does not end the
// waiting: then the context given to Lock bounds it, and the deadline of ctx.
func awaitDecided(ctx context.Context, t *tally) []error {
	select {
	case <-t.decided:
		return nil
	case <-ctx.Done():
	}
	l := innermost(ctx)
	if l == nil || !l.endedBy(context.Cause(ctx)) {
		return contextError(ctx)
	}
	given := l.scope.Context
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		given, cancel = context.WithDeadline(given, deadline)
		defer cancel()
	}
	return awaitDecided(given, t)
}

// endedBy reports whether the lock's context has ended with that cause because the lock has. It
// compares no cause of the caller's, which may not be comparable.
func (l *Lock) endedBy(cause error) bool {
	_, lost := cause.(*Error)
	return (lost || cause == ErrReleased || cause == ErrHandedOver || cause == ErrClosed) && context.Cause(l.ctx) == cause
}

// releaseUnless releases the lock, if there is one, unless the hooks have returned: otherwise the call
// panics and returns no lock that a caller could unlock.
func (l *Lock) releaseUnless(returned *bool) {
	if l != nil && !*returned {
		l.hold.releaseInterrupted()
	}
}

// String returns the names, the slots if there are any, whether the lock is a reader's, the token and the
// owner's id. It doesn't say whether the lock is still held: see [Lock.Err].
func (l *Lock) String() string {
	what := quoted(l.names) + slotsText(l.slots) + readingText(l.Shared())
	return fmt.Sprintf("lock %s, token %d, owner %s", what, l.Token(), l.Owner())
}

// LogValue returns what String does, as attributes ([slog.LogValuer]).
func (l *Lock) LogValue() slog.Value {
	all := append(make([]slog.Attr, 0, 4), slog.Any("names", l.Names()))
	if l.slots != nil {
		all = append(all, slog.Any("slots", l.Slots()))
	}
	if l.Shared() {
		all = append(all, slog.Bool("shared", true))
	}
	return slog.GroupValue(append(all, slog.Uint64("token", l.Token()), slog.String("owner", l.Owner()))...)
}
