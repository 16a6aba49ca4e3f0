package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// Leader is the masters' answer to the question who leads.
type Leader struct {
	ID string // the leader's Term.ID; empty when nobody leads

	// Identity is which process leads, with the text of [quorum.WithLabel]: an address, say. It is
	// self-reported, for people and routing. It is zero when nobody leads, and if no master knows
	// it (yet): it is written after the grant.
	Identity quorum.Identity
}

// Leader asks the masters who leads. A Leader without an ID means that nobody leads. The answer is
// what the masters had during the call. It is for people, logs and routing: a process that must not
// act alongside the leader campaigns. A leader whose process died, or was cut off, is shown until its
// lease is over. Masters that restarted without their data, and that no client has asked for a grant
// since, say that nobody leads while a leader that they forgot may yet be valid, for at most one
// lease.
//
// The error wraps [quorum.ErrUnavailable] when too few masters answered to tell,
// [quorum.ErrQuarantined] when masters that may have forgotten a leader could make the difference,
// [quorum.ErrClosed], and the context's error.
func (c *Candidate) Leader(ctx context.Context) (Leader, error) {
	state, err := operator.Inspect(ctx, c.locker, c.name)
	if err != nil {
		return Leader{}, fmt.Errorf("leader: %w", err)
	}
	if state.Owner != "" {
		return Leader{ID: state.Owner, Identity: state.Identity}, nil
	}
	if err := undecided(state); err != nil {
		return Leader{}, fmt.Errorf("leader: who leads %q is not known: %w", c.name, err)
	}
	return Leader{}, nil
}

// undecided returns why somebody may lead although no quorum shows an owner, or nil. Under any quorum rule, a leader
// has more than half of the nodes.
func undecided(s operator.Status) error {
	masters := make([]lockstate.Master, len(s.Nodes))
	var failed, why error
	var quarantined []string
	for i, n := range s.Nodes {
		masters[i] = lockstate.Master{Err: n.Err, InspectReply: operators.InspectReply{Owner: n.Owner}, Quarantine: n.Quarantine}
		switch {
		case n.Err != nil:
			failed = plain.Join(failed, n.Err)
		case masters[i].MayHide():
			quarantined = append(quarantined, n.Node)
		}
	}
	if lockstate.Judge(s.Name, masters, quorate.Majority(len(masters))).State == lockstate.Free {
		return nil
	}
	if failed != nil {
		why = fmt.Errorf("%w: %w", quorum.ErrUnavailable, failed)
	}
	if quarantined != nil {
		why = plain.Join(why, fmt.Errorf("%w: %s", quorum.ErrQuarantined, strings.Join(quarantined, ", ")))
	}
	return why
}

// Observe returns an iterator over who leads: what [Candidate.Leader] returns first, and then each
// change of it, including when a leader's identity becomes known. A pair without an error has the
// leader, or says that nobody leads. One with an error says that the leader is unknown, once until
// it is known again. Observe asks the masters at an interval (see [WithObserveInterval]), so a
// shorter term may go unseen, as may one during the loop's body; the next pair has the latest.
//
// The iterator works in the caller's goroutine. It ends when ctx ends or the loop does, and, after
// a pair whose error wraps [quorum.ErrClosed], when the locker was closed. It may be used again,
// and by several goroutines, each with a sequence of its own.
func (c *Candidate) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		next := time.Tick(c.observe)
		var last Leader
		var unknown bool
		for first := true; ; first = false {
			now, err := c.Leader(ctx)
			if ctx.Err() != nil {
				return
			}
			if (first || now != last || (err != nil) != unknown) && !yield(now, err) {
				return
			}
			if errors.Is(err, quorum.ErrClosed) {
				return
			}
			last, unknown = now, err != nil
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}
}
