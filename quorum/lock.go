package quorum

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lock is a handle on a lock that was acquired. It is safe for concurrent use. Entering the same lock again through its context
// makes another handle, of a higher level.
type Lock struct {
	hold     *hold
	names    []string
	level    int // 1 for the handle that releases the lock, more for those that entered again
	outer    *Lock
	scope    lockContext
	ctx      context.Context
	cancel   context.CancelCauseFunc
	unlocked atomic.Bool
}

// begin makes the lock's context.
func (l *Lock) begin(parent context.Context) {
	l.scope = lockContext{parent, l}
	l.ctx, l.cancel = context.WithCancelCause(&l.scope)
}

// lockContext is a context that knows the lock whose context it becomes. It is part of the Lock: context.WithValue would
// allocate.
type lockContext struct {
	context.Context
	lock *Lock
}

type lockKey struct{}

func (c *lockContext) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// innermost returns the handle whose context this is, or is derived from.
func innermost(ctx context.Context) *Lock {
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

// FromContext returns the innermost lock over the name whose context ctx is, or is derived from, and that has not been
// unlocked. It may have been lost: see Err.
func FromContext(ctx context.Context, name string) (*Lock, bool) {
	for l := innermost(ctx); l != nil; l = l.outer {
		if slices.Contains(l.names, name) && !l.unlocked.Load() {
			return l, true
		}
	}
	return nil, false
}

// Names returns what this handle locked.
func (l *Lock) Names() []string { return slices.Clone(l.names) }

// Owner returns the owner's id, "<locker uuid>:<number>", as it stands on the nodes.
func (l *Lock) Owner() string { return l.hold.owner.String() }

// Token returns the fencing token: strictly greater for each successive holder of a name, below 2^53, the same for every
// level. Hand it to the resource that the lock protects, which must refuse lower tokens than it has seen.
func (l *Lock) Token() uint64 { return l.hold.token }

// Level returns how many times the holder has entered, 0 when the lock is not held any more. Unlock of the handle that acquired
// the lock releases it, whatever the level; Unlock of the others then returns ErrNotHeld.
func (l *Lock) Level() int {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.validLocked() {
		return 0
	}
	return h.level
}

// Context returns a context that ends the moment the lock can no longer be trusted, by the local clock, without needing a
// packet, or when it is unlocked. It is derived from the context given to Lock, and ends with that too. context.Cause tells
// why: an error that wraps ErrLost, ErrReleased, ErrClosed, or the parent's cause.
func (l *Lock) Context() context.Context { return l.ctx }

// Deadline returns the instant until which the holder may believe that it holds, as far as is known now. Renewal moves it. It is
// the zero time when too few nodes keep the lock, or the locker was closed.
func (l *Lock) Deadline() time.Time {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == clock.Never {
		return time.Time{}
	}
	return time.Now().Add(h.until.Sub(h.core.clock.Now()))
}

// Valid tells whether the lock is held, by the clock, which it reads: true means true also after the process was paused.
func (l *Lock) Valid() bool {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	return l.hold.validLocked() && !l.unlocked.Load()
}

// Err returns nil while the lock is held, and else why it is not: an error that wraps ErrLost or ErrClosed, or ErrReleased.
func (l *Lock) Err() error {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.phase == expired:
		return h.reason
	case l.unlocked.Load() || h.phase == released:
		return ErrReleased
	case h.phase == closed:
		return ErrClosed
	case !h.validLocked():
		return h.errorLocked("hold", ErrLost, "the deadline has passed")
	}
	return nil
}

// patiently waits until decided is closed or ctx ends, and returns what ended the waiting. That a lock has ended is no reason: where it
// is why ctx has, the context that was given to Lock bounds the waiting, and the deadline of ctx.
func patiently(ctx context.Context, decided <-chan struct{}) []error {
	select {
	case <-decided:
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
	return patiently(given, decided)
}

// endedBy tells whether the lock's context has ended, with that cause, because the lock has. Causes of the caller's need not be
// comparable: they are not compared.
func (l *Lock) endedBy(cause error) bool {
	_, lost := cause.(*Error)
	return (lost || cause == ErrReleased || cause == ErrClosed) && context.Cause(l.ctx) == cause
}

// Extend raises the lease on the nodes to at least lease from now, at most the max lease. It returns nil when as many nodes as
// the rule needs confirmed. Else the lock keeps its deadline, and the error, a *Error, wraps ErrUnavailable when nodes failed,
// ErrLost or ErrNotHeld when there is nothing to extend, ErrInvalid for a lease that cannot be, or the context's error. The lock's own
// context may be given: see Unlock.
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	h := l.hold
	if lease < minLease || lease > h.core.maxLease {
		return invalidf("extend", l.names, "lease %v is not between %v and the nodes' max lease %v", lease, minLease, h.core.maxLease)
	}
	r, err := l.askToExtend(lease)
	if err != nil {
		return err
	}
	if err := l.await(ctx, "extend", r); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.usableLocked("extend") // enough nodes confirmed, but perhaps after it was lost
}

func (l *Lock) askToExtend(lease time.Duration) (*round, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.usableLocked("extend"); err != nil {
		return nil, err
	}
	r := newRound(len(h.votes), h.core.need)
	batch := []scripts.Renewal{{Names: h.names, Owner: h.owner, Token: h.token, Lease: scripts.ToMillis(lease)}}
	call := scripts.Renew(batch)
	sent := h.core.clock.Now()
	for i, n := range h.core.nodes {
		to := &extending{round: r, vote: &h.votes[i], until: clock.Deadline(sent, lease, h.set.drift)}
		if err := n.Pipe(h.lane()).Start(call, nil, to); err != nil {
			r.answer(i, reply{err: err})
		}
	}
	return r, nil
}

// extending hears a node's answer to Extend.
type extending struct {
	round *round
	vote  *vote
	until clock.Instant
}

func (e *extending) Done(r pipeline.Result) {
	a := reply{err: r.Err}
	if r.Err == nil {
		e.vote.hold.hear(e.vote, func() {
			e.vote.renewedLocked(r.Reply.Renew[0], r.RunID, e.until)
			a.err = e.vote.err
		})
	}
	a.counts = a.err == nil
	e.round.answer(e.vote.node, a)
}

// usableLocked refuses handles that hold nothing.
func (l *Lock) usableLocked(op string) error {
	h := l.hold
	switch {
	case l.unlocked.Load() || h.phase == released:
		return &Error{Op: op, Names: l.names, causes: []error{ErrNotHeld}}
	case h.phase == expired:
		return &Error{Op: op, Names: l.names, causes: []error{h.reason}}
	case h.phase == closed:
		return &Error{Op: op, Names: l.names, causes: []error{ErrClosed}}
	case !h.validLocked():
		return h.errorLocked(op, ErrLost, "the deadline has passed")
	}
	return nil
}

// await waits until a round is decided, and says what was missing.
func (l *Lock) await(ctx context.Context, op string, r *round) error {
	ended := patiently(ctx, r.decided)
	enough, _, nodes := r.outcome()
	if enough {
		return nil
	}
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &Error{Op: op, Names: l.names, Nodes: nodes, causes: ended}
	switch {
	case h.phase == expired:
		e.causes, e.Nodes = append(e.causes, h.reason), nil // the reason has what they said
	case ended == nil:
		e.causes = append(e.causes, ErrUnavailable)
	}
	return e
}
