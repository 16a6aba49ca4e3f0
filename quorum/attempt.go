package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// grace is how long a failed attempt waits for the nodes that had not answered when its outcome was
// certain. Most of them answer within a round trip, so nothing is left on them when the call
// returns. A slow node delays the call by no more.
const grace = 20 * time.Millisecond

// attempt makes one attempt at the names, and one more where the first had no other obstacle than a
// neighbour's token. It returns the lock, or else undoes the attempt and returns its result. With a
// lock, the result is nil where there is no hook for it.
func (c *core) attempt(
	ctx context.Context, set *settings, names []string, approach waiting.Approach,
) (*Lock, *attemptResult) {
	lock, r := c.attemptOnce(ctx, set, names, approach)
	if r != nil && r.movedOn && ctx.Err() == nil {
		return c.attemptOnce(ctx, set, names, approach)
	}
	return lock, r
}

func (c *core) attemptOnce(
	ctx context.Context, set *settings, names []string, approach waiting.Approach,
) (*Lock, *attemptResult) {
	if err := c.awaitList(ctx); err != nil {
		err.Names = slices.Clone(names)
		c.counters.attempts[outcomeOf(err)].Add(1)
		r := &attemptResult{Result: waiting.Result{Wait: -1}, err: err, approach: approach, cut: ctx.Err() != nil}
		r.of[unanswered] = len(c.nodes)
		return nil, r
	}
	c.background.add() // so that Close does not close the nodes before the attempt is undone
	defer c.background.done()
	a := newAttempt(c, set, names, innermost(ctx))
	settled := false
	defer func() {
		if !settled { // the caller's context has panicked
			a.hold.releaseInterrupted()
		}
	}()
	a.askAndWait(ctx, approach)
	if a.isWon() {
		a.settleToken(ctx)
	} else {
		a.askWhetherPermanent(ctx)
	}
	if a.commit(ctx) {
		settled = true
		c.counters.attempts[Acquired].Add(1)
		if set.hooks.Attempt != nil {
			return &a.hold.first, a.result(approach)
		}
		return &a.hold.first, nil
	}
	r := a.result(approach)
	r.err = a.undo(ctx)
	r.Held = errors.Is(r.err, ErrHeld)
	c.counters.attempts[outcomeOf(r.err)].Add(1)
	settled = true
	return nil, r
}

// askAndWait asks the nodes, and waits until the outcome is certain, or the call or the Locker ends.
func (a *attempt) askAndWait(ctx context.Context, approach waiting.Approach) {
	c := a.hold.core
	c.openAttempts.Add(1)
	defer c.openAttempts.Add(-1) // also when the caller's context panics
	a.ask(approach)
	select {
	case <-a.decided:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// commit makes the attempt a held lock and schedules its renewal, if the quorum is reached, the
// Locker is open and the deadline has not passed. The clock is read last. Where commit fails an
// attempt that was won, a.cause says why.
func (a *attempt) commit(ctx context.Context) bool {
	h := a.hold
	if ctx.Err() != nil || !a.isWon() || a.cause != nil {
		return false
	}
	h.first.begin(ctx) // before any mutex is locked: ctx is the caller's code
	switch {
	case h.core.schedule.Add(&h.entry, h.holdUnlessLate):
		h.core.introduction.Keep(h.requestedAt)
		return true
	case h.core.isClosed():
		a.cause = ErrClosed
	default:
		a.cause = h.whyLate()
	}
	h.first.cancel(ErrNotAcquired)
	return false
}

// whyLate is why a won attempt has no time left to be held.
func (h *hold) whyLate() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	what := "the lease"
	if h.maxHoldEnd != clock.Never && h.deadline == h.maxHoldEnd {
		what = fmt.Sprintf("its max hold of %v", h.set.maxHold)
	}
	return detail(what + " was over before enough nodes had granted it")
}

// holdUnlessLate puts the hold in phase held, unless its deadline has passed.
func (h *hold) holdUnlessLate() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set.maxHold > 0 {
		h.maxHoldEnd = h.requestedAt.Add(h.set.maxHold)
	}
	h.refreshLocked()
	if !h.core.clock.Now().Before(h.deadline) {
		return false
	}
	h.phase = held
	h.planLocked(h.renewedAt)
	return true
}

// undo ends a failed attempt: a release goes to every node that may have granted. undo waits for
// the nodes that granted, and at most grace for those that have not answered, but no longer than
// ctx allows.
func (a *attempt) undo(ctx context.Context) *Error {
	err, certain, open := a.startUndo(ctx)
	patience := grace
	if a.waited {
		patience = 0
	}
	moment := time.NewTimer(patience)
	defer moment.Stop()
	select {
	case <-open.decided:
	case <-moment.C:
	case <-ctx.Done():
	}
	select {
	case <-certain.decided:
	case <-ctx.Done():
	}
	if ended := contextError(ctx); ended != nil && !errors.Is(err, ended[0]) {
		err.causes = append(err.causes, ended...)
	}
	return err
}

// startUndo sends the releases. certain counts the replies of the nodes that granted, open those of
// the nodes that have not answered.
func (a *attempt) startUndo(ctx context.Context) (err *Error, certain, open *tally) {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	err = a.failureLocked(ctx)
	h.phase = failed
	of := a.count()
	certain, open = newTally(of[granted], of[granted]), newTally(of[unanswered], of[unanswered])
	h.abandonLocked(nil, func(v *vote) *tally {
		switch a.answers[v.node].outcome {
		case granted:
			return certain
		case unanswered:
			return open
		default:
			return nil
		}
	})
	return err, certain, open
}

// attemptResult is what an attempt found out; of one that became a lock, for a hook only.
type attemptResult struct {
	waiting.Result
	err        *Error
	approach   waiting.Approach
	cut        bool // the attempt ended before its outcome was certain
	movedOn    bool // it failed for errMovedOn
	of         outcomeCounts
	writeBacks int
}

// result returns what the nodes answered. It must be called before undo.
func (a *attempt) result(approach waiting.Approach) *attemptResult {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &attemptResult{Result: waiting.Result{Wait: -1}, approach: approach, cut: !a.isDecided(),
		movedOn: errors.Is(a.cause, errMovedOn)}
	r.of, r.writeBacks = a.count(), a.writeBacks
	waits := make([]time.Duration, 0, len(a.answers))
	for i := range a.answers {
		n := &a.answers[i]
		r.Listeners = max(r.Listeners, n.listeners)
		switch {
		case n.outcome == granted:
			r.Votes++
			waits = append(waits, 0)
		case n.outcome == unasked:
			waits = append(waits, 0)
		case (n.outcome == refused || n.outcome == quarantined) && n.wait >= 0:
			waits = append(waits, n.wait)
		}
	}
	if len(waits) >= h.core.need && a.verdict != won { // a won attempt failed for another reason
		slices.Sort(waits)
		r.Wait = waits[h.core.need-1]
	}
	return r
}
