package quorum

import (
	"context"
	"time"
)

// Extend raises the lease on the nodes to at least lease from now; lease is at most the nodes' max
// lease. It returns nil when as many nodes have confirmed as the quorum size. Else the lock keeps
// its deadline, and the error is an [*Error]. It wraps [ErrUnavailable] when too few nodes
// confirmed, [ErrLost], [ErrNotHeld] or [ErrClosed] when the lock is not held, [ErrInvalid] for a
// lease out of bounds, or the context's error.
//
// ctx may be the lock's own context: see [Lock.Unlock].
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	h := l.hold
	if lease < minLease || lease > h.core.maxLease {
		return invalidf("extend", l.names, "lease %v is not between %v and the nodes' max lease %v",
			lease, minLease, h.core.maxLease)
	}
	t, err := l.startExtend(lease)
	if err != nil {
		return err
	}
	if err := l.await(ctx, "extend", t); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.usableLocked("extend") // enough nodes have confirmed, but perhaps after the lock was lost
}

func (l *Lock) startExtend(lasts time.Duration) (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.usableLocked("extend"); err != nil {
		return nil, err
	}
	t := newTally(len(h.members), h.core.need)
	commands := h.lease.Extend(h.core.clock.Now(), lasts, nil)
	h.carryOutLocked(commands, callers{attempt: h.attempt, tally: allIn(t)})
	return t, nil
}
