package quorum

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
)

// Ready returns nil if a quorum of nodes answers, lets this Locker in and is out of quarantine. It is for a readiness
// probe, and for a program that should fail at its start rather than wait in its first call of Lock. It writes the list
// to blank masters, as [New] does. On each node alone it acquires, renews and releases a lock under a reserved name,
// quorumlock:trial:ID, of which only a token counter remains. It does not test whether the user may use the keys and
// channels of the program's own names, whether messages arrive, or anything on a node in quarantine: quorumlock check
// -name does.
//
// It asks all nodes, and returns as soon as enough are ready: no dead node delays that. Otherwise it
// takes up to about a node's timeout.
//
// The error is an [*Error] with the [*node.Error] of each node that failed. It wraps [ErrQuarantined] if only
// quarantines are in the way, which end by themselves. Otherwise it wraps [ErrUnavailable], with [ErrMembership] for
// another list of masters, and with [ErrPermanent] if too few nodes are without a permanent error. If ctx ended the
// call, it wraps the context's error. A Locker whose options [Locker.With] refused returns [ErrInvalid], and a closed
// one [ErrClosed].
func (l *Locker) Ready(ctx context.Context) error {
	if err := l.unusable(opReady, nil); err != nil {
		return err
	}
	if ended := engine.EndOf(ctx); ended != nil {
		return &Error{Op: opReady, causes: ended}
	}
	ready, tried := l.engine.Roster.Ready(ctx, l.engine.Quorum)
	if ready {
		return nil
	}
	select {
	case s := <-l.engine.Roster.Survey(): // it shows why, and marks new masters
		return l.notReady(s, tried)
	case <-ctx.Done():
		return &Error{Op: opReady, causes: append([]error{ErrUnavailable}, engine.EndOf(ctx)...)}
	case <-l.engine.Lifetime.Done():
		return &Error{Op: opReady, causes: []error{ErrClosed}}
	}
}

// notReady returns why the nodes make no lock, as a survey and trials have found; nil if they can.
func (l *Locker) notReady(s *roster.Survey, tried []error) error {
	e := &Error{Op: opReady, Answers: Answers{Quorum: l.engine.Quorum.Need}}
	nodes := s.Readiness(tried)
	for i, n := range nodes {
		switch {
		case n.Err != nil:
			e.Unknown++
			e.addNodes(l.engine.NodeError(i, "look", n.Err))
		case n.In > 0:
			e.Quarantined++
		default:
			e.Granted++
		}
	}
	left, ok := membership.ReadyIn(nodes, l.engine.Quorum)
	switch {
	case ok && left == 0:
		return nil
	case ok:
		e.causes = []error{ErrQuarantined, forAnother(left)}
	default:
		e.causes = []error{ErrUnavailable}
	}
	return e
}
