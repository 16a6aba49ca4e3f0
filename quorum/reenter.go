package quorum

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// enter enters a lock again that the flow of ctx holds: its level rises by one, on as many nodes as the rule needs, which have to
// confirm that the lock still stands. Level and token on the nodes are absolute, so that a request or a reply that is lost,
// or comes twice, counts once. A fixed lease is asked for what is left of it: nothing prolongs it, also where it was forgotten.
func (l *Locker) enter(ctx context.Context, within *Lock, names []string) (*Lock, error) {
	h := within.hold
	if other := h.set.unlike(l.set); other != "" {
		return nil, invalidf("lock", names, "this flow holds it with other settings, which entering it again does not change: %s", other)
	}
	inner := &Lock{hold: h, names: names, outer: innermost(ctx)}
	inner.begin(ctx)
	entered := false
	defer func() {
		if !entered {
			inner.backOut()
		}
	}()
	r, err := inner.ask(within)
	if err != nil {
		return nil, err
	}
	err = inner.await(ctx, "lock", r)
	if err == nil && inner.Valid() && ctx.Err() == nil {
		entered = true
		return inner, nil
	}
	failure, _ := err.(*Error)
	if failure == nil {
		failure = &Error{Op: "lock", Names: names, causes: contextError(ctx)}
		if failure.causes == nil {
			failure.causes = []error{ErrLost}
		}
	}
	failure.causes = slices.Insert(failure.causes, 0, error(ErrNotAcquired))
	return nil, failure
}

// ask raises the level of the hold, here and on the nodes, and makes the handle that of the new level.
func (l *Lock) ask(within *Lock) (*round, error) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.validLocked() || within.unlocked.Load() {
		return nil, &Error{Op: "lock", Names: l.names, causes: []error{ErrNotAcquired, ErrLost}}
	}
	sent, lease := h.core.clock.Now(), h.set.lease
	if h.set.fixed {
		lease = h.until.Sub(sent)
	}
	h.level++
	l.level = h.level
	h.inner = append(h.inner, l)

	r := newRound(len(h.votes), h.core.need)
	call := h.acquireAgainLocked(h.level, scripts.ToMillis(lease))
	until := clock.Deadline(sent, lease, h.set.drift)
	for i, n := range h.core.nodes {
		v := &h.votes[i]
		to := &entering{repairing{v, until}, r}
		if err := n.Pipe(h.lane()).Start(call, &v.claim, to); err != nil {
			r.answer(i, reply{err: err})
		} else {
			v.asked = true
		}
	}
	return r, nil
}

// backOut takes the level back that the handle has raised, on every node, whatever has reached it.
func (l *Lock) backOut() {
	h := l.hold
	l.unlocked.Store(true)
	defer l.cancel(ErrNotAcquired)
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.level == 0 {
		return
	}
	h.inner = slices.DeleteFunc(h.inner, func(other *Lock) bool { return other == l })
	if h.phase == held {
		h.level--
		h.releaseLocked(h.level, unheard)
	}
}

// entering hears a node's answer to a holder that enters again.
type entering struct {
	repairing
	round *round
}

func (e *entering) Done(r pipeline.Result) {
	var a reply
	v := e.vote
	v.hold.hear(v, func() {
		a.counts = v.regrantedLocked(r, e.until) == granted
		a.err = v.err
	})
	e.round.answer(v.node, a)
}
