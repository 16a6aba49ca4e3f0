package quorum

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// Extend raises the lease on the nodes to at least lease from now, at most the max lease. It returns nil when as many nodes
// confirmed as the quorum needs. Else the lock keeps its deadline, and the error, an [*Error], wraps [ErrUnavailable] when nodes
// failed, [ErrLost] or [ErrNotHeld] when there is nothing to extend, [ErrInvalid] for a lease that cannot be, or the context's error.
// The lock's own context may be given: see [Lock.Unlock].
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	h := l.hold
	if lease < minLease || lease > h.core.maxLease {
		return invalidf("extend", l.names, "lease %v is not between %v and the nodes' max lease %v", lease, minLease, h.core.maxLease)
	}
	t, err := l.startExtend(lease)
	if err != nil {
		return err
	}
	if err := l.await(ctx, "extend", t); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.usableLocked("extend") // enough nodes confirmed, but perhaps after it was lost
}

func (l *Lock) startExtend(lease time.Duration) (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.usableLocked("extend"); err != nil {
		return nil, err
	}
	t := newTally(len(h.votes), h.core.need)
	call := scripts.Renew([]scripts.Renewal{{Names: h.names, Owner: h.owner, Token: h.token, Lease: scripts.ToMillis(lease)}})
	until := clock.Deadline(h.core.clock.Now(), lease, h.set.drift)
	for i := range h.votes {
		if err := h.pipe(i).Start(call, nil, &extendReply{t, &h.votes[i], until}); err != nil {
			t.add(i, nodeReply{err: err})
		}
	}
	return t, nil
}

// extendReply takes a node's answer to Extend.
type extendReply struct {
	tally *tally
	vote  *vote
	until clock.Instant
}

func (e *extendReply) Done(r pipeline.Result) {
	err := r.Err
	if err == nil {
		e.vote.hold.update(func() {
			e.vote.renewedLocked(r.Reply.Renew[0], r.RunID, e.until)
			err = e.vote.err
		})
	}
	e.tally.add(e.vote.node, nodeReply{counts: err == nil, err: err})
}
