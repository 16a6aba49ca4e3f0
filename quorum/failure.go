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
)

// failureLocked returns why the attempt failed. ended is the end of its context; nil for none.
func (a *attempt) failureLocked(ended []error) *Error {
	e := a.errorLocked()
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
		if e.causes = append(e.causes, reason); reason == ErrHeld {
			e.Remaining = a.remaining()
			e.Holder, e.namedBy = a.holder()
			e.ours = strings.HasPrefix(e.Holder, a.hold.core.uuid+":")
		}
	case isOverdue(ended):
		e.causes = append(e.causes, ErrUnavailable)
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

// errorLocked returns an error with the count of each outcome.
func (a *attempt) errorLocked() *Error {
	h := a.hold
	of := h.lease.Count()
	e := &Error{
		Op: "lock", Names: h.first.names, Need: h.core.need, causes: []error{ErrNotAcquired},
		Granted: of[lease.Granted], Refused: of[lease.Refused], Quarantined: of[lease.Quarantined],
		Unknown: of[lease.Failed] + of[lease.Unanswered] + of[lease.Unasked], unasked: of[lease.Unasked],
	}
	for i := range h.members {
		if err := h.members[i].err; err != nil {
			e.Nodes = multierror.Append(e.Nodes, err)
		}
	}
	return e
}

// remaining returns for how long the nodes that refused keep the lock by their answers, until as
// many as the quorum size can grant; −1 for ever. It goes by the nodes that have answered, of which
// a probe may have one only.
func (a *attempt) remaining() time.Duration {
	const forever = time.Duration(math.MaxInt64)
	waits := make([]time.Duration, 0, len(a.answers))
	for i := range a.answers {
		switch wait := a.answers[i].wait; {
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
	for i := range a.answers {
		if n := &a.answers[i]; a.hold.lease.AnswerOf(i) == lease.Refused && n.holder != "" {
			if count[n.holder]++; count[n.holder] > most {
				holder, namedBy, most = n.holder, i, count[n.holder]
			}
		}
	}
	return holder, namedBy
}

// blockingReason returns the sentinel for what keeps the quorum from being reached: held,
// quarantined or unavailable, in this order, whichever alone would have to change. It counts nodes
// that were not asked, or have not answered, as granting.
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

// outcomeOf returns the outcome of a call or an attempt that failed. It allocates nothing:
// errors.Is would.
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
