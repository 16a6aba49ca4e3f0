package quorum

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/node"
)

// failureLocked returns why the attempt failed.
func (a *attempt) failureLocked(ctx context.Context) *Error {
	e := a.errorLocked()
	ended := contextError(ctx)
	switch {
	case ended != nil:
		e.causes = append(e.causes, ended...)
	case a.hold.core.isClosed() && a.cause != ErrClosed:
		e.causes = append(e.causes, ErrClosed)
	}
	var failed *node.Error
	switch {
	case a.verdict == won && ended != nil: // the quorum was reached too late for the caller
	case errors.As(a.cause, &failed): // the token could not be written back
		e.causes = append(e.causes, ErrUnavailable)
		e.Nodes = multierror.Append(e.Nodes, a.cause)
	case a.cause != nil:
		e.causes = append(e.causes, a.cause)
	case a.verdict == won: // the quorum was reached, but the Locker was closed
	case a.isDecided():
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

// errorLocked returns an error with the count of each outcome.
func (a *attempt) errorLocked() *Error {
	h := a.hold
	of := a.count()
	e := &Error{
		Op: "lock", Names: h.first.names, Need: h.core.need, causes: []error{ErrNotAcquired},
		Granted: of[granted], Refused: of[refused], Quarantined: of[quarantined],
		Unknown: of[unknown] + of[unanswered] + of[unasked], unasked: of[unasked],
	}
	for i := range h.votes {
		if err := h.votes[i].err; err != nil {
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
		switch n := &a.answers[i]; {
		case n.outcome == granted:
			waits = append(waits, 0)
		case n.outcome == refused && n.wait < 0:
			waits = append(waits, forever)
		case n.outcome == refused:
			waits = append(waits, n.wait)
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
		if n := &a.answers[i]; n.outcome == refused && n.holder != "" {
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
	of := a.count()
	willing := of[granted] + of[unanswered] + of[unasked]
	switch {
	case willing+of[refused] >= a.hold.core.need:
		return ErrHeld
	case willing+of[refused]+of[quarantined] >= a.hold.core.need:
		return ErrQuarantined
	default:
		return ErrUnavailable
	}
}

// outcomeOf returns the outcome of a call or an attempt that failed. It allocates nothing:
// errors.Is would.
func outcomeOf(e *Error) Outcome {
	for _, cause := range e.causes {
		switch cause {
		case ErrHeld:
			return Held
		case ErrQuarantined:
			return Quarantined
		case ErrUnavailable:
			return Unavailable
		}
	}
	for _, cause := range e.causes {
		if cause == context.Canceled || cause == context.DeadlineExceeded {
			return Canceled
		}
	}
	return Failed
}
