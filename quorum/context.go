package quorum

import (
	"context"
	"slices"
)

// lockContext is the parent of a lock's context: the context given to Lock, and the lock as a
// value. It is part of the Lock, because context.WithValue would allocate.
type lockContext struct {
	context.Context
	lock *Lock
}

// lockKey is the key of a lock in a context.
type lockKey struct{}

func (c *lockContext) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// innermost returns the handle whose context ctx is, or is derived from; nil for none.
func innermost(ctx context.Context) *Lock {
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

// FromContext returns the lock over the name whose context is ctx, or a parent of ctx. Of several it returns the
// innermost. It leaves out locks that were unlocked or handed over, and slots of semaphores. The lock may have been lost:
// see [Lock.Err].
func FromContext(ctx context.Context, name string) (*Lock, bool) {
	for l := innermost(ctx); l != nil; l = l.outer {
		if l.target.Slots == nil && slices.Contains(l.target.Names, name) && !l.handle.IsUnlocked() && !l.first.handle.IsUnlocked() {
			return l, true
		}
	}
	return nil, false
}
