package quorum

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// call is one call that acquires: of Lock, TryLock, TakeOver, or a semaphore.
type call struct {
	*Locker
	ctx   context.Context // the caller's
	wants queue.Wanted
	slots queue.Turn     // of a call that wants slots; else nil
	tries *waiting.Tries // of a call that waits for no release; else nil
	lock  *Lock          // of the last attempt; nil if it failed
	err   *Error         // why it did; nil for a lock

	// Room for the usual number of names.
	one    [1]string
	oneKey [1]scripts.Name
}

var _ queue.Attempts = (*call)(nil)

// newCall returns a call that wants the names.
func (l *Locker) newCall(ctx context.Context, names []string) *call {
	c := &call{Locker: l, ctx: ctx}
	names = append(c.one[:0], names...) // the caller's may change
	c.wants = queue.Wanted{Names: names, Key: queue.NewKey(names, l.set.isReader()), Keys: scripts.NewNames(c.oneKey[:0], names)}
	return c
}

// attempt makes the attempt that is due; for slots, a turn of attempts.
func (c *call) attempt(ctx context.Context, due queue.Due) queue.Result {
	if c.slots != nil {
		return c.slots(ctx, c, due)
	}
	r := c.Attempt(ctx, c.wants.Target(), due.Approach)
	r.MayTry = r.Held && c.tries != nil && c.HeldBy(r) == ""
	return r
}

func (c *call) Tries() *waiting.Tries { return c.tries }

// Attempt makes one attempt, and a second one if only another name's token stood in the way of the first.
func (c *call) Attempt(ctx context.Context, at queue.Target, approach waiting.Approach) queue.Result {
	r := c.attemptOnce(ctx, at, approach)
	if !r.Acquired && r.Cause == lease.MovedOn && ctx.Err() == nil {
		return c.attemptOnce(ctx, at, approach)
	}
	return r
}

func (c *call) attemptOnce(ctx context.Context, at queue.Target, approach waiting.Approach) queue.Result {
	l := c.newLock(c.ctx, at)
	acquired, o := l.handle.Hold().Attempt(ctx, at.First, approach, c.set.hooks.Attempt != nil)
	if acquired {
		c.meter.attempts[engine.Acquired].Add(1)
		c.lock, c.err = l, nil
		return queue.Result{Outcome: o, Acquired: true}
	}
	c.err = l.failure(o)
	c.meter.attempts[o.Kind].Add(1)
	return queue.Result{Outcome: o, Result: o.Result()}
}

// Full returns the result of a turn that finds too few free slots.
func (c *call) Full(why string, hint waiting.Result, approach waiting.Approach) queue.Result {
	c.err = &Error{Op: "lock", Names: c.wants.Names, HeldBy: HeldBy{Remaining: hint.Wait}, kind: engine.Held,
		causes: []error{ErrNotAcquired, ErrHeld, detail(why)}}
	c.meter.attempts[engine.Held].Add(1)
	return queue.Result{
		Outcome: &engine.Outcome{Kind: engine.Held, Approach: approach, Verdict: lease.OutOfReach},
		Result:  hint,
	}
}

// HeldBy also names the holder in the call's error.
func (c *call) HeldBy(r queue.Result) (holder string) {
	at, by := c.engine.Moment(), r.RefusedBy()
	namedBy := c.tries.Refused(by, at.Now.Sub(r.BegunAt), at)
	if namedBy < 0 {
		return ""
	}
	if holder := r.Nodes[namedBy].Holder; holder != c.err.Holder { // else a node is noted that was not late
		c.err.noteHolder(r.Outcome, holder, namedBy, c.engine.UUID)
	}
	return by.By[namedBy]
}

// failure returns why the attempt failed.
func (l *Lock) failure(o *engine.Outcome) *Error {
	of := o.Answers()
	e := &Error{
		Op: "lock", Names: l.target.Names, slots: l.target.Slots, reads: l.locker.set.isReader(), kind: o.Kind,
		causes: []error{ErrNotAcquired}, HeldBy: HeldBy{key: l.handle.Hold().Key()},
		Answers: Answers{Quorum: o.Quorum.Need, Granted: of[lease.Granted].Len(), Refused: of[lease.Refused].Len(),
			Quarantined: of[lease.Quarantined].Len(), Unknown: o.Unknown(), unasked: of[lease.Unasked].Len()},
	}
	if o.Closed && !o.Ended {
		e.causes = append(e.causes, ErrClosed)
	}
	if reason := sentinels[o.Kind]; reason != nil {
		e.causes = append(e.causes, reason)
		if left := o.Result().Wait; o.Kind == engine.Quarantined && left > 0 {
			e.causes = append(e.causes, forAnother(left))
		}
	} else if o.Cause == lease.TooLate {
		e.causes = append(e.causes, l.whyLate(o))
	}
	if o.Obstacle() == engine.Held {
		e.Remaining = o.Remaining()
		holder, namedBy := o.Holder()
		e.noteHolder(o, holder, namedBy, l.locker.engine.UUID)
		e.split = o.IsSplit()
	}
	switch {
	case !o.HasPassedOn():
	case o.Quorum.Blocks(of[lease.Refused]):
		e.causes = append(e.causes, ErrLost, passedOn)
	default:
		e.causes = append(e.causes, ErrLost, tookTooFew)
	}
	for i := range o.Nodes {
		e.addNodes(o.Nodes[i].Err)
		switch o.Nodes[i].Late {
		case lease.Refused:
			e.Refused, e.Unknown = e.Refused+1, e.Unknown-1
		case lease.Quarantined:
			e.Quarantined, e.Unknown = e.Quarantined+1, e.Unknown-1
		}
	}
	e.causes = append(e.causes, o.End...)
	return e
}

// sentinels has the errors for the reasons why an attempt failed.
var sentinels = [engine.Kinds]error{engine.Held: ErrHeld, engine.Quarantined: ErrQuarantined, engine.Unavailable: ErrUnavailable}

// forAnother says how long too few nodes grant because of quarantines.
func forAnother(left time.Duration) error {
	return detail(fmt.Sprintf("for another %v", max(left.Round(100*time.Millisecond), 100*time.Millisecond)))
}

// whyLate returns why a won attempt has no time left to be held.
func (l *Lock) whyLate(o *engine.Outcome) error {
	what, stop := "the lease", l.locker.set.terms.StopBefore
	if o.ByMaxHold {
		what = fmt.Sprintf("its max hold of %v", l.locker.set.terms.MaxHold)
	}
	if stop > 0 {
		what = fmt.Sprintf("%s, less %v to stop in,", what, stop)
	}
	return detail(what + " was over before enough nodes had granted it")
}

// noteHolder names the holder in the error.
func (e *Error) noteHolder(o *engine.Outcome, holder string, namedBy int, uuid string) {
	e.Holder, e.namedBy = holder, namedBy
	e.ours = strings.HasPrefix(holder, uuid+":")
	e.readers, e.reserved = o.ReadersWith(holder), e.reads && holder == ""
}

// splitVote is why an attempt failed at a name that nobody is known to hold.
const splitVote detail = "others try at the same time, and none has enough votes"

// noteSplit makes the error say that the vote was split: none of those who refused is known to hold.
func (e *Error) noteSplit() {
	for i, cause := range e.causes {
		if cause == ErrHeld {
			e.causes[i], e.kind = splitVote, engine.KindOfEnd(e.causes)
		}
	}
	e.HeldBy = HeldBy{key: e.key}
}

// Why a ticket is worthless.
const (
	passedOn   detail = "the lock has passed on since it was handed over"
	tookTooFew detail = "this call took it over on too few masters, and released it there"
)
