package quorum

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// wanted is what a call wants: all of the names, or some slots of a semaphore. It is made once per call. Each attempt
// has a [target], with the slots that it asks for.
type wanted struct {
	names []string       // of the call; for a semaphore, its name
	slots *slotsCall     // nil for names
	key   queue.Key      // of the queue in which the call waits
	tries *waiting.Tries // for a call that waits for no release; else nil
}

func (l *Locker) wants(names []string) wanted {
	return wanted{names: names, key: queue.NewKey(names, l.set.isReader())}
}

// count returns how many slots the call wants, 0 for names.
func (w wanted) count() int {
	if w.slots == nil {
		return 0
	}
	return w.slots.want
}

// channels returns the names whose channels the call waits for.
func (w wanted) channels() []string {
	if w.slots == nil {
		return w.names
	}
	return []string{scripts.SlotsName(w.names[0])}
}

// attempt makes one attempt, or for slots a turn of attempts.
func (w wanted) attempt(ctx context.Context, c *core, set *settings, turn queue.Turn) (*Lock, attemptResult) {
	if w.slots != nil {
		return w.slots.attempt(ctx, set, turn, w.tries)
	}
	lock, r := c.attempt(ctx, set, target{names: w.names}, turn.Approach)
	r.mayTry = lock == nil && w.tries != nil && r.Held && !c.isHeld(w.tries, r)
	return lock, r
}

// target is what one attempt asks for: all of the names, or slots of the semaphore names[0].
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

// firstNode returns the node that an attempt by ProbeFirst asks first; −1 for the node of the names.
func (t target) firstNode() int {
	if t.slots == nil {
		return -1
	}
	return t.probe
}

// attemptResult is the result of an attempt.
type attemptResult struct {
	*engine.Outcome // nil for a lock, unless a hook needs it
	waiting.Result
	err    *Error // nil for a lock
	mayTry bool   // for a call that waits for no release: nobody is known to hold what it wants
}

// attempt makes one attempt, and a second one if only another name's token stood in the way of the
// first. It returns the lock, or nil and why the attempt failed.
func (c *core) attempt(
	ctx context.Context, set *settings, what target, approach waiting.Approach,
) (*Lock, attemptResult) {
	lock, r := c.attemptOnce(ctx, set, what, approach)
	if lock == nil && r.Cause == lease.MovedOn && ctx.Err() == nil {
		return c.attemptOnce(ctx, set, what, approach)
	}
	return lock, r
}

func (c *core) attemptOnce(
	ctx context.Context, set *settings, what target, approach waiting.Approach,
) (*Lock, attemptResult) {
	l := c.newLock(ctx, set, what)
	acquired, o := l.handle.Hold().Attempt(ctx, what.firstNode(), approach, set.hooks.Attempt != nil)
	if acquired {
		c.counters.attempts[outcomeAcquired].Add(1)
		return l, attemptResult{Outcome: o}
	}
	r := attemptResult{Outcome: o, Result: o.Result(), err: l.failure(ctx, o)}
	c.counters.attempts[outcomeOf(r.err)].Add(1)
	return nil, r
}

// failure returns why the attempt failed.
func (l *Lock) failure(ctx context.Context, o *engine.Outcome) *Error {
	if o.Unlisted {
		return l.unlisted(ctx, o)
	}
	e := l.counts(o)
	var ended []error
	switch {
	case o.Ended:
		ended = contextError(ctx)
		e.causes = append(e.causes, ended...)
	case o.Closed:
		e.causes = append(e.causes, ErrClosed)
	}
	switch {
	case o.Verdict == lease.Won && o.Ended: // the quorum was reached too late for the caller
	case o.Cause == lease.TooLate:
		e.causes = append(e.causes, l.whyLate(o))
	case o.Cause != lease.NoCause: // the token could not be written back
		e.causes = append(e.causes, ErrUnavailable)
	case o.Verdict == lease.Won: // the quorum was reached, but the Locker was closed
	case o.Verdict != lease.Open:
		l.addReason(e, o)
	case isOverdue(ended):
		e.causes = append(e.causes, ErrUnavailable)
	}
	if o.HasPassedOn() {
		e.causes = append(e.causes, ErrLost, passedOn)
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
	e.noteEnd(ctx)
	return e
}

// unlisted is the failure of an attempt while the list of masters is not known.
func (l *Lock) unlisted(ctx context.Context, o *engine.Outcome) *Error {
	causes := contextError(ctx)
	switch {
	case o.Refusals != nil:
		causes = []error{ErrUnavailable}
	case o.Closed:
		causes = []error{ErrClosed}
	case isOverdue(causes):
		causes = append([]error{ErrUnavailable}, causes...)
	}
	e := l.core.unattempted(causes...)
	e.Names = slices.Clone(l.names)
	e.addNodes(o.Refusals...)
	return e
}

// whyLate returns why a won attempt has no time left to be held.
func (l *Lock) whyLate(o *engine.Outcome) error {
	what, stop := "the lease", l.set.terms.StopBefore
	if o.ByMaxHold {
		what = fmt.Sprintf("its max hold of %v", l.set.terms.MaxHold)
	}
	if stop > 0 {
		what = fmt.Sprintf("%s, less %v to stop in,", what, stop)
	}
	return detail(what + " was over before enough nodes had granted it")
}

// counts returns an error with how many nodes gave each answer.
func (l *Lock) counts(o *engine.Outcome) *Error {
	of := o.Answers()
	return &Error{
		Op: "lock", Names: l.names, slots: l.slots, key: l.handle.Hold().Key(), Quorum: o.Quorum.Need,
		reads: l.set.isReader(), causes: []error{ErrNotAcquired},
		Granted: of[lease.Granted].Len(), Refused: of[lease.Refused].Len(), Quarantined: of[lease.Quarantined].Len(),
		Unknown: o.Unknown(), unasked: of[lease.Unasked].Len(),
	}
}

// addReason adds the reason why there is no quorum and, if the lock is held, what is known of the holder.
func (l *Lock) addReason(e *Error, o *engine.Outcome) {
	if o.Blocking() == engine.HeldByAnother {
		e.Remaining = o.Remaining()
		holder, namedBy := o.Holder()
		e.noteHolder(o, holder, namedBy, l.core.UUID)
		e.split = o.IsSplit()
	}
	if reason := reasons[o.Reason()]; reason != nil {
		e.causes = append(e.causes, reason)
	}
}

// reasons has the errors for the reasons why there is no quorum.
var reasons = [engine.Reasons]error{
	engine.NoReason: nil, engine.HeldByAnother: ErrHeld, engine.Quarantined: ErrQuarantined, engine.Unavailable: ErrUnavailable,
}

// isHeld reports whether somebody is known to hold what a refused attempt wanted, and names him in the error.
func (c *core) isHeld(tries *waiting.Tries, r attemptResult) bool {
	at := c.Moment()
	namedBy := tries.Refused(r.RefusedBy(), at.Now.Sub(r.BegunAt), at)
	if namedBy < 0 {
		return false
	}
	if holder := r.Nodes[namedBy].Holder; holder != r.err.Holder {
		r.err.noteHolder(r.Outcome, holder, namedBy, c.UUID)
	}
	return true
}

// noteHolder names the holder in the error.
func (e *Error) noteHolder(o *engine.Outcome, holder string, namedBy int, uuid string) {
	e.Holder, e.namedBy = holder, namedBy
	e.ours = strings.HasPrefix(holder, uuid+":")
	e.readers, e.reserved = o.ReadersWith(holder), holder == "" && o.IsReserved()
}

// splitVote is why an attempt failed at a name that nobody is known to hold.
const splitVote detail = "others try at the same time, and none has enough votes"

// noteSplit makes the error say that the vote was split: none of those who refused is known to hold.
func (e *Error) noteSplit() {
	for i, cause := range e.causes {
		if cause == ErrHeld {
			e.causes[i] = splitVote
		}
	}
	e.Holder, e.Remaining, e.ours, e.readers, e.reserved = "", 0, false, 0, false
}

// passedOn is why a ticket is worthless.
const passedOn detail = "the lock has passed on since it was handed over"
