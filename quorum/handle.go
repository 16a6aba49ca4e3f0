package quorum

import (
	"context"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/testlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lock is a handle on a lock that was acquired. It is safe for concurrent use. Entering the lock
// again through its context makes another handle, of a higher level.
type Lock struct {
	hold     *hold
	names    []string
	one      [1]string // room for the usual number of names
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

// begin makes the lock's context, from the context given to Lock.
func (l *Lock) begin(parent context.Context) {
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
	c := &core{clock: set.Clock, maxLease: node.DefaultMaxLease, schedule: &schedule.Schedule[*hold]{}, closed: make(chan struct{})}
	h := &hold{core: c, set: &set, owner: scripts.NewOwner("test", 1)}
	h.lease.InitHeld(&set.terms, t.Token, c.clock.Now().Add(maxMaxHold))
	h.setNames(t.Names)
	h.entry.Owner = h
	h.first = Lock{hold: h, names: t.Names, level: 1, outer: innermost(t.Parent), ctx: t.Context, cancel: t.End}
	h.first.scope = lockContext{t.Parent, &h.first}
	return &h.first
}
