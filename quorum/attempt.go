package quorum

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// target is what an attempt is for: all of the names, or slots of the semaphore names[0].
type target struct {
	names       []string
	slots       []int          // nil for names
	probe       int            // of slots: the node that an attempt by ProbeFirst asks first
	predecessor *scripts.Owner // from which to take over; nil for none
}

// keys returns the names of the locks on the nodes.
func (t target) keys() []string {
	if t.slots == nil {
		return t.names
	}
	return scripts.SlotNames(t.names[0], t.slots)
}

// firstNode returns the node that an attempt by ProbeFirst asks first; −1 for that of the names.
func (t target) firstNode() int {
	if t.slots == nil {
		return -1
	}
	return t.probe
}

// attemptResult is what an attempt found out. Of one that became a lock it is for a hook only.
type attemptResult struct {
	waiting.Result
	err        *Error
	approach   waiting.Approach
	cut        bool // the attempt ended before its outcome was certain
	movedOn    bool // the token counter has moved on since the grant
	of         lease.Counts
	writeBacks int
	reserved   *engine.Hold // whose reservations keep readers back; nil for none
}

// attempt makes one attempt, and a second one if only another name's token stood in the way of the
// first. It returns the lock, or else the result of the attempt. With a lock, the result is nil unless a hook
// needs it.
func (c *core) attempt(
	ctx context.Context, set *settings, what target, approach waiting.Approach,
) (*Lock, *attemptResult) {
	lock, r := c.attemptOnce(ctx, set, what, approach)
	if r != nil && r.movedOn && ctx.Err() == nil {
		return c.attemptOnce(ctx, set, what, approach)
	}
	return lock, r
}

func (c *core) attemptOnce(
	ctx context.Context, set *settings, what target, approach waiting.Approach,
) (*Lock, *attemptResult) {
	l := c.newLock(ctx, set, what)
	acquired, o := l.handle.Hold().Attempt(ctx, what.firstNode(), approach, set.hooks.Attempt != nil)
	if acquired {
		c.counters.attempts[outcomeAcquired].Add(1)
		if o == nil {
			return l, nil
		}
		return l, resultOf(o)
	}
	r := resultOf(o)
	r.err = l.failure(ctx, o)
	r.Held = errors.Is(r.err, ErrHeld)
	if o.Unlisted {
		r.of[lease.Unanswered] = len(c.Nodes)
	}
	c.counters.attempts[outcomeOf(r.err)].Add(1)
	return nil, r
}

func resultOf(o *engine.Outcome) *attemptResult {
	return &attemptResult{Result: o.Result(), approach: o.Approach, cut: o.IsCut(), movedOn: o.Cause == lease.MovedOn,
		of: o.Count(), writeBacks: o.WriteBacks, reserved: o.Reserved}
}
