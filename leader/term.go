package leader

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/quorum"
)

// Term is one candidate's time as the leader. It is safe for concurrent use.
type Term struct {
	lock *quorum.Lock

	resigning sync.Once
	resigned  error // the result of the first Resign
}

// ID returns the id by which [Candidate.Leader] and [Candidate.Observe] show this term. It
// is the lock's owner id, "<locker uuid>:<number>", fresh for every term.
func (t *Term) ID() string { return t.lock.Owner() }

// Token returns the fencing token of the term: greater than every earlier term's, below
// 2^52. Hand it to each resource that the leader writes to, which must refuse lower tokens than it
// has seen.
func (t *Term) Token() uint64 { return t.lock.Token() }

// Context returns a context that ends with the term, by the local clock and without needing a
// packet. It is derived from the context given to [Candidate.Campaign] or [Candidate.Run], and ends
// with that too. Its [context.Cause] is an error that wraps [quorum.ErrLost], [quorum.ErrReleased]
// (after [Term.Resign]) or [quorum.ErrClosed], or the parent's cause.
func (t *Term) Context() context.Context { return t.lock.Context() }

// Valid reports whether the candidate still leads: while it does, no other one can. It reads the clock, so it is right
// even after the process was paused. A term whose context has ended with its parent stays valid until [Term.Resign]:
// its work can end in good order. Once Valid is false it stays false.
func (t *Term) Valid() bool { return t.lock.Valid() }

// Resign ends the term and lets the next candidate lead. Call it when the leader's work has ended,
// not before: Resign ends the term's context, but does not wait for the work that uses it. It sends
// the release to all masters even if ctx has ended, which ends only the waiting; ctx may be the
// term's own.
//
// Resign returns nil when a quorum of masters has confirmed. Otherwise the error wraps [quorum.ErrLost]
// when the term had been lost, [quorum.ErrUnavailable] when too few masters confirmed (the others
// get the release when they answer again, or the lease ends), [quorum.ErrClosed] when the masters'
// connections were closed before, or the context's error. In each case the term is over. A further
// Resign returns the result of the first one.
func (t *Term) Resign(ctx context.Context) error {
	t.resigning.Do(func() {
		if err := t.lock.Unlock(ctx); err != nil {
			t.resigned = fmt.Errorf("leader: resign: %w", err)
		}
	})
	return t.resigned
}
