package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
)

// notFounded returns why a number of nodes that the rule refuses makes no Locker: no master has
// that list, or perhaps one does that does not answer.
func notFounded(s *roster.Survey, rule error) error {
	unanswered := s.Unanswered()
	if len(unanswered) == 0 {
		return fmt.Errorf("quorumlock: %w; no master has this list", rule)
	}
	return &Error{Op: "open", Nodes: multierror.Append(nil, unanswered...), causes: []error{rule,
		detail("none of the masters that answer has this list"), ErrUnavailable}}
}

// Ready returns nil if so many nodes as a lock needs answer, let this Locker in and are out of
// quarantine. It is for a readiness probe, and for a program that should fail at its start rather
// than wait in its first call of Lock. It marks new masters, as [Open] does. On each node alone it acquires, renews and
// releases a lock under a reserved name, quorumlock:trial:ID, of which nothing is left but a token counter. It does not
// try whether the user may use the keys and the channels of the program's own names, whether messages are heard, nor
// anything on a node that is in quarantine: quorumlock check -name tries these.
//
// It asks all nodes, and returns as soon as enough are ready: no dead node delays that. Otherwise it
// takes up to about a node's timeout.
//
// The error is an [*Error] with the [*node.Error] of each node that failed. It wraps
// [ErrQuarantined] if only quarantines, which pass by themselves, are in the way, or else
// [ErrUnavailable]; with it [ErrMembership] for another list of masters, and [ErrPermanent] if too
// few nodes are without a permanent error. A Locker whose options [Locker.With] refused returns
// [ErrInvalid], and a closed one [ErrClosed].
func (l *Locker) Ready(ctx context.Context) error {
	c := l.core
	if err := l.unusable(opReady, nil); err != nil {
		return err
	}
	if ended := contextError(ctx); ended != nil {
		return &Error{Op: opReady, causes: ended}
	}
	ready, tried := c.Roster.Ready(ctx, c.Need)
	if ready {
		return nil
	}
	select {
	case s := <-c.Roster.Survey(): // it shows why, and marks new masters
		if err := c.notReady(s, tried); err != nil {
			return err
		}
		return nil
	case <-ctx.Done():
		return &Error{Op: opReady, causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	case <-c.Closed:
		return &Error{Op: opReady, causes: []error{ErrClosed}}
	}
}

// notReady returns why the nodes make no lock, as a survey and trials have found; nil if they can.
func (c *core) notReady(s *roster.Survey, tried []error) *Error {
	e := &Error{Op: opReady, Need: c.Need}
	var waits []time.Duration // of the nodes that are ready, or will be
	for i := range c.Nodes {
		wait, err := s.Wait(i)
		if err == nil && wait == 0 {
			err = tried[i]
		}
		switch {
		case err != nil:
			e.Unknown++
			e.Nodes = multierror.Append(e.Nodes, c.NodeError(i, "look", err))
			continue
		case wait > 0:
			e.Quarantined++
		default:
			e.Granted++
		}
		waits = append(waits, wait)
	}
	slices.Sort(waits)
	switch {
	case e.Granted >= e.Need:
		return nil
	case len(waits) >= e.Need:
		left := waits[e.Need-1].Round(100 * time.Millisecond)
		e.causes = []error{ErrQuarantined, detail(fmt.Sprintf("for another %v", left))}
	default:
		e.causes = []error{ErrUnavailable}
	}
	return e
}
