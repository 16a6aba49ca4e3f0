package quorum

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// failureLocked returns why the attempt failed. ended is the error of its context, if that has ended.
func (a *attempt) failureLocked(ended []error) *Error {
	e := a.countsErrorLocked()
	switch {
	case ended != nil:
		e.causes = append(e.causes, ended...)
	case a.hold.core.isClosed():
		e.causes = append(e.causes, ErrClosed)
	}
	switch verdict, cause := a.hold.lease.Verdict(), a.hold.lease.Cause(); {
	case verdict == lease.Won && ended != nil: // the quorum was reached too late for the caller
	case cause == lease.TooLate:
		e.causes = append(e.causes, a.hold.whyLate())
	case cause != lease.NoCause: // the token could not be written back
		e.causes = append(e.causes, ErrUnavailable)
	case verdict == lease.Won: // the quorum was reached, but the Locker was closed
	case verdict != lease.Open:
		reason := a.blockingReason()
		if reason == ErrHeld {
			e.Remaining = a.remaining()
			e.Holder, e.namedBy = a.holder()
			e.ours = strings.HasPrefix(e.Holder, a.hold.core.uuid+":")
			e.readers, e.reserved = a.readersBeside(e.Holder), e.Holder == "" && a.isReserved()
		}
		if reason = a.takeOverReason(reason, e); reason != nil {
			e.causes = append(e.causes, reason)
		}
	case isOverdue(ended):
		e.causes = append(e.causes, ErrUnavailable)
	}
	if a.hasPassedOn() {
		e.causes = append(e.causes, ErrLost, passedOn)
	}
	return e
}

// whyLate is why a won attempt has no time left to be held.
func (h *hold) whyLate() error {
	what := "the lease"
	if h.lease.EndedByMaxHold() {
		what = fmt.Sprintf("its max hold of %v", h.set.maxHold)
	}
	return detail(what + " was over before enough nodes had granted it")
}

// countsErrorLocked returns an error with how many nodes gave each answer.
func (a *attempt) countsErrorLocked() *Error {
	h := a.hold
	of := h.lease.Count()
	e := &Error{
		Op: "lock", Names: h.first.names, slots: h.first.slots, key: h.names[0].String(), Need: h.core.need,
		reads: h.set.isReader(), causes: []error{ErrNotAcquired},
		Granted: of[lease.Granted], Refused: of[lease.Refused], Quarantined: of[lease.Quarantined],
		Unknown: of[lease.Failed] + of[lease.Unanswered] + of[lease.Unasked], unasked: of[lease.Unasked],
	}
	e.Nodes = h.nodesErrorLocked()
	return e
}

// nodesErrorLocked returns the errors of the nodes' last replies; nil for none.
func (h *hold) nodesErrorLocked() (all *multierror.Error) {
	for i := range h.members {
		if err := h.members[i].err; err != nil {
			all = multierror.Append(all, err)
		}
	}
	return all
}

// remaining returns for how long the nodes that refused keep the lock by their replies, until as
// many as the quorum size can grant; −1 for ever. It goes by the nodes that have replied: of a probe
// that may be one.
func (a *attempt) remaining() time.Duration {
	const forever = time.Duration(math.MaxInt64)
	waits := make([]time.Duration, 0, len(a.requests))
	for i := range a.requests {
		switch wait := a.requests[i].wait; {
		case a.hold.lease.AnswerOf(i) == lease.Granted:
			waits = append(waits, 0)
		case a.hold.lease.AnswerOf(i) != lease.Refused:
		case wait < 0:
			waits = append(waits, forever)
		default:
			waits = append(waits, wait)
		}
	}
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	if left := waits[min(a.hold.core.need, len(waits))-1]; left != forever {
		return left
	}
	return -1
}

// holder returns the owner that the most nodes named in their refusals, and one of these nodes.
func (a *attempt) holder() (holder string, namedBy int) {
	count, most := map[string]int{}, 0
	for i := range a.requests {
		if r := &a.requests[i]; a.hold.lease.AnswerOf(i) == lease.Refused && r.holder != "" {
			if count[r.holder]++; count[r.holder] > most {
				holder, namedBy, most = r.holder, i, count[r.holder]
			}
		}
	}
	return holder, namedBy
}

// readersBeside returns how many readers hold a name with the holder that nodes named, itself included: the
// most that one of them says. It returns 0 for a holder that is no reader.
func (a *attempt) readersBeside(holder string) (count int) {
	for i := range a.requests {
		if r := &a.requests[i]; a.hold.lease.AnswerOf(i) == lease.Refused && r.holder == holder {
			count = max(count, r.readers)
		}
	}
	return count
}

// isReserved reports whether a node refused because a writer waits.
func (a *attempt) isReserved() bool {
	for i := range a.requests {
		if a.hold.lease.AnswerOf(i) == lease.Refused && a.requests[i].reserved {
			return true
		}
	}
	return false
}

// blockingReason returns the sentinel for what keeps the quorum from being reached: the first of
// held, quarantined and unavailable that, if it changed, would let the attempt succeed. It counts
// nodes that were not asked, or have not replied, as granting.
func (a *attempt) blockingReason() error {
	of := a.hold.lease.Count()
	willing := of[lease.Granted] + of[lease.Unanswered] + of[lease.Unasked]
	switch {
	case willing+of[lease.Refused] >= a.hold.core.need:
		return ErrHeld
	case willing+of[lease.Refused]+of[lease.Quarantined] >= a.hold.core.need:
		return ErrQuarantined
	default:
		return ErrUnavailable
	}
}

// attemptResult is what an attempt found out. Of one that became a lock it is for a hook only.
type attemptResult struct {
	waiting.Result
	err        *Error
	approach   waiting.Approach
	cut        bool // the attempt ended before its outcome was certain
	movedOn    bool // it failed for errMovedOn
	of         lease.Counts
	writeBacks int
	reserved   *hold // whose reservations keep readers back; nil for none
}

// result returns what the nodes replied. It must be called before undo.
func (a *attempt) result(approach waiting.Approach) *attemptResult {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &attemptResult{Result: waiting.Result{Wait: -1}, approach: approach,
		cut: h.lease.Verdict() == lease.Open, movedOn: h.lease.Cause() == lease.MovedOn}
	r.of, r.writeBacks = h.lease.Count(), h.lease.WriteBacks()
	if approach.Reserves() && !h.set.isReader() {
		r.reserved = h
	}
	waits := make([]time.Duration, 0, len(a.requests))
	byReaders, byOthers := 0, 0
	for i := range a.requests {
		n := &a.requests[i]
		r.Listeners = max(r.Listeners, n.listeners)
		switch h.lease.AnswerOf(i) {
		case lease.Granted:
			r.Votes++
			waits = append(waits, 0)
		case lease.Unasked:
			waits = append(waits, 0)
		case lease.Refused, lease.Quarantined:
			if n.readers > 0 {
				byReaders++
			} else {
				byOthers++
			}
			if n.wait >= 0 {
				waits = append(waits, n.wait)
			}
		}
	}
	r.Readers = byReaders > 0 && byOthers == 0
	if len(waits) >= h.core.need && h.lease.Verdict() != lease.Won { // a won attempt failed for another reason
		slices.Sort(waits)
		r.Wait = waits[h.core.need-1]
	}
	return r
}

// outcomeOf returns the outcome of a call or an attempt that failed. It doesn't allocate, as errors.Is
// would.
func outcomeOf(e *Error) outcome {
	for _, cause := range e.causes {
		switch cause {
		case ErrHeld:
			return outcomeHeld
		case ErrQuarantined:
			return outcomeQuarantined
		case ErrUnavailable:
			return outcomeUnavailable
		}
	}
	for _, cause := range e.causes {
		if cause == context.Canceled || cause == context.DeadlineExceeded {
			return outcomeCanceled
		}
	}
	return outcomeFailed
}
