package quorum

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

// chooseToken picks the fencing token out of the counters of the grants that were counted when the quorum was reached: the largest.
// Behind tells how many of them must be written back, because they stand lower.
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

// settleToken chooses the fencing token, and has the nodes that stand lower raise their counters to it. When one of them does not
// confirm, the attempt has failed.
func (a *attempt) settleToken(ctx context.Context) {
	h := a.hold
	h.mu.Lock()
	token, behind := chooseToken(a.answers)
	h.token = token
	h.mu.Unlock()
	if behind > 0 {
		a.cause = a.writeBack(ctx, token)
	}
}

// errNotRaised: the node's counter does not stand where the grant left it.
var errNotRaised = errors.New("the grant that was read was gone before the token was written back")

// writeBack raises the counters that stand lower. The waiting ends with the caller's context; the commands do not. Exactly as many
// grants were counted as the quorum needs, so every one of them must confirm.
func (a *attempt) writeBack(ctx context.Context, token uint64) error {
	h := a.hold
	group, ctx := errgroup.WithContext(ctx)
	h.mu.Lock()
	for i := range a.answers {
		if !a.answers[i].counted || a.answers[i].token == token {
			continue
		}
		call := scripts.Raise(h.names, h.owner, a.answers[i].token, token)
		group.Go(func() error {
			r := h.pipe(i).Do(ctx, call)
			if r.Err == nil && !r.Reply.Raise {
				return h.core.nodeError(i, "raise", errNotRaised)
			}
			return r.Err
		})
	}
	h.mu.Unlock()
	return group.Wait()
}
