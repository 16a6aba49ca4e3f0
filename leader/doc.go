// Package leader elects one leader among candidates, with a lock of package quorum: the candidate
// that holds the lock at the election's name leads, and the others wait for it.
//
//	candidate, err := leader.New(locker, "billing/scheduler")
//	if err != nil {
//		return err
//	}
//	return candidate.Run(ctx, func(ctx context.Context, t *leader.Term) error {
//		return schedule(ctx, t.Token()) // while this process leads; must return when ctx ends
//	})
//
// [Candidate.Run] is the usual way: it campaigns, runs a function while the candidate leads,
// resigns when the function has returned, and campaigns again when a term was lost.
// [Candidate.Campaign] is for programs with a loop of their own. [Candidate.IsLeader] asks the
// local clock whether this candidate leads, and [Candidate.Leader] and [Candidate.Observe] ask the
// masters who does.
//
// A term is one candidate's time as the leader. It begins when Campaign returns it, and it ends in
// one of four ways:
//
//	resigned  Term.Resign, or Run after its function: the next candidate leads within milliseconds
//	lost      too few masters keep the lock, by the local clock, or its max hold or fixed lease is over:
//	          the term is no longer valid, and its context ends with quorum.ErrLost
//	closed    Locker.Close: the context ends with quorum.ErrClosed, and the next candidate leads
//	          when the lease is over, unless the term resigns before
//	dead      the process ends: the next candidate leads when the lease is over
//
// While the clocks of clients and masters run at rates within the lock's drift of each other, no
// two terms of one election are valid at one time ([Term.Valid]). [operator.ForceUnlock], and
// others who delete the lock's keys, break that. Tokens of terms rise even if clocks are wrong, while
// a majority of the masters keeps the last one: a resource that refuses lower tokens than it has seen
// is safe from a leader that was paused in the middle of a write.
//
// The Locker's settings apply: a shorter lease ([quorum.WithLease]) brings a new leader sooner after a
// crash, [quorum.WithMaxHold] bounds a term, and with [quorum.WithStopBefore] the term's context ends
// before the term does.
package leader
