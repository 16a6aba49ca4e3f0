package quorum

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// Extend raises the lease on the nodes to at least lease from now; lease is at most the nodes' max
// lease. It returns nil when as many nodes have confirmed as the quorum size. Else the lock keeps
// its deadline, and the error is an [*Error]. It wraps [ErrUnavailable] when too few nodes
// confirmed, [ErrLost], [ErrNotHeld] or [ErrClosed] when the lock is not held, [ErrInvalid] for a
// lease out of bounds, or the context's error.
//
// ctx may be the lock's own context: see [Lock.Unlock].
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	h := l.hold
	if lease < minLease || lease > h.core.maxLease {
		return invalidf("extend", l.names, "lease %v is not between %v and the nodes' max lease %v",
			lease, minLease, h.core.maxLease)
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
	return l.usableLocked("extend") // enough nodes have confirmed, but perhaps after the lock was lost
}

func (l *Lock) startExtend(lease time.Duration) (*tally, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.usableLocked("extend"); err != nil {
		return nil, err
	}
	h.askSecondWaveNowLocked()
	t := newTally(len(h.votes), h.core.need)
	extended := scripts.Renewal{Names: h.names, Owner: h.owner, Token: h.token, Lease: scripts.ToMillis(lease)}
	call := scripts.Renew(h.list, []scripts.Renewal{extended})
	until := clock.Deadline(h.core.clock.Now(), lease, h.set.drift)
	for i := range h.votes {
		if err := h.pipe(i).Start(call, nil, &extendReply{t, &h.votes[i], until}); err != nil {
			t.add(i, nodeReply{err: err})
		}
	}
	return t, nil
}

// extendReply receives a node's reply to Extend.
type extendReply struct {
	tally *tally
	vote  *vote
	until clock.Instant
}

func (e *extendReply) Done(r pipeline.Result) {
	err := r.Err
	if err == nil {
		e.vote.hold.update(func() {
			e.vote.renewedLocked(r, 0, e.until)
			err = e.vote.err
		})
	}
	e.tally.add(e.vote.node, nodeReply{counts: err == nil, err: err})
}
