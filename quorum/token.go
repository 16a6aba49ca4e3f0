package quorum

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

// chooseToken returns the fencing token, which is the largest counter among the grants that were
// read when the quorum was reached. behind is how many of those counters stand lower, and need a
// write-back.
func chooseToken(answers []answer) (token uint64, behind int) {
	for i := range answers {
		if answers[i].counted {
			token = max(token, answers[i].token)
		}
	}
	for i := range answers {
		if answers[i].counted && answers[i].token < token {
			behind++
		}
	}
	return token, behind
}

// settleToken chooses the fencing token, and writes it back where the counter stands lower. It sets
// a.cause, and so fails the attempt, when one of those nodes does not confirm.
func (a *attempt) settleToken(ctx context.Context) {
	h := a.hold
	h.mu.Lock()
	token, behind := chooseToken(a.answers)
	h.token = token
	h.mu.Unlock()
	if behind > 0 {
		a.writeBacks = behind
		h.core.counters.writeBacks.Add(uint64(behind))
		a.cause = a.writeBack(ctx, token)
	}
}

var (
	errNotRaised = errors.New("the grant that was read was gone before the token was written back")
	// errMovedOn: a neighbour has raised the counter, or a late copy of the request was granted
	// after another owner. A later attempt does not meet that again.
	errMovedOn = errors.New("the connection died during the attempt, and the token counter has moved on since the grant")
)

// writeBack raises the counters that stand lower, and waits for the nodes; the end of ctx ends only
// the waiting. Every one of them must confirm: the counted grants are exactly as many as the quorum
// size.
func (a *attempt) writeBack(ctx context.Context, token uint64) error {
	h := a.hold
	group, ctx := errgroup.WithContext(ctx)
	h.mu.Lock()
	call := scripts.Raise(h.names, h.owner, token)
	for i := range a.answers {
		if !a.answers[i].counted || a.answers[i].token == token {
			continue
		}
		group.Go(func() error {
			r := h.pipe(i).Do(ctx, call)
			if r.Err != nil {
				return r.Err
			}
			return h.core.nodeError(i, "raise", h.votes[i].raised(r.Reply.Raise, token))
		})
	}
	h.mu.Unlock()
	return group.Wait()
}

// raised returns why a write-back does not count, or nil. The owner must still hold by the grant
// that was read. It does where its request went out once, since no other attempt uses that owner,
// however high neighbours have raised the counter. A request that was resent may have been granted
// again, after another owner and above it: then the counter is above the token.
func (v *vote) raised(counter, token uint64) error {
	switch {
	case counter < token:
		return errNotRaised
	case counter > token && v.claim.MayArriveLate():
		return errMovedOn
	}
	return nil
}
