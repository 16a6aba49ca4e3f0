package quorum

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// heldBy returns the lock over the names that the flow of ctx holds, nil for none. A flow is the
// calls whose contexts derive from a lock's context. The error wraps ErrInvalid for a flow that
// holds some of the names only, or holds them through several locks: it would wait for itself.
func (c *core) heldBy(ctx context.Context, op string, names []string) (*Lock, error) {
	var within *Lock
	for i, name := range names {
		found := innermost(ctx)
		for found != nil && !(found.hold.core == c && slices.Contains(found.hold.first.names, name) && found.Valid()) {
			found = found.outer
		}
		switch {
		case i > 0 && (found == nil) != (within == nil):
			missing := name
			if within == nil {
				missing = names[0]
			}
			return nil, invalidf(op, names,
				"this flow holds some of the names already, but not %.64q: it would wait for itself", missing)
		case found != nil && within != nil && found.hold != within.hold:
			return nil, invalidf(op, names, "this flow holds the names through several locks: enter each by itself")
		}
		within = found
	}
	return within, nil
}

// enter enters a lock again: its level rises by one, and as many nodes as the quorum size must
// confirm that they keep the lock.
func (within *Lock) enter(ctx context.Context, set *settings, names []string) (*Lock, error) {
	h := within.hold
	if other := h.set.differences(set); other != "" {
		return nil, invalidf("lock", names,
			"this flow holds it with other settings, which entering it again does not change: %s", other)
	}
	inner := &Lock{hold: h, outer: innermost(ctx)}
	inner.setNames(names)
	inner.begin(ctx)
	entered := false
	defer func() {
		if !entered {
			inner.backOut()
		}
	}()
	t, err := inner.startEnter(within)
	if err != nil {
		return nil, err
	}
	t.awaitWhetherPermanent(ctx, h.core.closed)
	err = inner.await(ctx, "lock", t)
	if err == nil && inner.Valid() && ctx.Err() == nil {
		entered = true
		return inner, nil
	}
	failure, _ := err.(*Error)
	if failure == nil {
		failure = &Error{Op: "lock", Names: slices.Clone(names), causes: contextError(ctx)}
		if failure.causes == nil {
			failure.causes = []error{ErrLost}
		}
	}
	if failure.Nodes != nil { // else the nodes do not matter
		failure.Need, failure.Granted = h.core.need, t.counted()
		failure.Unknown = len(h.members) - failure.Granted
	}
	failure.causes = slices.Insert(failure.causes, 0, error(ErrNotAcquired))
	return nil, failure
}

// startEnter raises the level of the hold, here and on the nodes, and gives it to the handle.
func (l *Lock) startEnter(within *Lock) (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.validLocked() || within.unlocked.Load() {
		return nil, &Error{Op: "lock", Names: l.names, causes: []error{ErrNotAcquired, ErrLost}}
	}
	t := newTally(len(h.members), h.core.need)
	commands := h.lease.Enter(h.core.clock.Now(), nil)
	l.level = h.lease.Level()
	h.inner = append(h.inner, l)
	h.carryOutLocked(commands, callers{attempt: h.attempt, tally: allIn(t)})
	return t, nil
}

// backOut undoes startEnter, on every node, whether or not the request has reached it.
func (l *Lock) backOut() {
	h := l.hold
	l.unlocked.Store(true)
	defer l.cancel(ErrNotAcquired)
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.level > 0 && h.lease.Phase() == lease.Held {
		h.lowerLocked(l, noTally)
	}
}

// lowerLocked ends an inner handle: it lowers the level by one, here and on the nodes.
func (h *hold) lowerLocked(l *Lock, tallyFor func(int) *tally) {
	h.inner = slices.DeleteFunc(h.inner, func(other *Lock) bool { return other == l })
	h.releaseLocked(h.lease.Leave(nil), nil, tallyFor)
}
