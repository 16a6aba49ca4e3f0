package leader

import (
	"context"
	"errors"
	"math"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/quorum"
)

// Run campaigns, and calls lead with the term's context and the term while the candidate leads. It
// resigns only when lead has returned, whatever lead returns, and also when lead panics or ends its
// goroutine. So the next candidate of an orderly handover begins after the work of this one has
// ended. lead must return when its context ends; the term stays valid ([Term.Valid]), and is
// renewed, until then, unless it was lost.
//
// If the term was lost before lead returned, or was about to be ([quorum.WithStopBefore]), or the resignation finds
// that it was lost, Run campaigns again, unless ctx has ended: it calls lead with another term, after the last call has
// returned. What lead returned for the lost term is then dropped: lead reports such errors itself, if they matter.
//
// Otherwise Run returns when lead has returned: lead's error joined with the one of [Term.Resign], and with
// [quorum.ErrClosed] if the locker was closed meanwhile; nil without any of them. So a lead that returns before its
// context ends, also with nil, ends Run: to lead for as long as possible, wait for the context. When ctx ends while the
// candidate campaigns, and when the locker is closed or waiting cannot succeed, Run returns the error of
// [Candidate.Campaign], which wraps ctx's error if ctx has ended: at a shutdown that is no failure. The locker's
// [quorum.WithWait] does not bound Run.
//
// Calls of Run on one candidate, or on several, in one process or in many, never call lead for two
// valid terms at one time. A lead that goes on after its term was lost does so alongside the next
// leader's: its context has ended, and resources refuse its token.
func (c *Candidate) Run(ctx context.Context, lead func(ctx context.Context, t *Term) error) error {
	// A candidate that gave up would leave the election without a successor.
	patient := c.locker.With(quorum.WithWait(math.MaxInt64)) // no bound
	for {
		t, err := c.campaign(ctx, patient)
		if err != nil {
			return err
		}
		worked, ended := t.during(ctx, lead)
		if ctx.Err() != nil || !errors.Is(ended, quorum.ErrLost) {
			return plain.Join(worked, ended)
		}
	}
}

// during calls lead, and resigns. ended says how the term ended, if not in good order: it wraps ErrLost, ErrClosed,
// or the error of the release.
func (t *Term) during(ctx context.Context, lead func(ctx context.Context, t *Term) error) (worked, ended error) {
	defer func() {
		closed := errors.Is(t.lock.Err(), quorum.ErrClosed) // the release may still succeed
		stopped := errors.Is(context.Cause(t.Context()), quorum.ErrLost) && ctx.Err() == nil
		ended = t.Resign(context.WithoutCancel(ctx))
		switch {
		case stopped:
			ended = quorum.ErrLost // for the work, whatever the masters say
		case closed && ended == nil:
			ended = quorum.ErrClosed
		}
	}()
	return lead(t.Context(), t), nil
}
