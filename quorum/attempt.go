package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// grace is how long an attempt that failed waits for nodes that had not answered when that was certain. Most answer within a
// round trip, and then nothing is left on them when the caller learns of the failure. No caller waits for a slow one.
const grace = 20 * time.Millisecond

// attempt is one request for a grant to the nodes, until it has become a held lock or is undone.
type attempt struct {
	hold    *hold
	answers []answer
	decided chan struct{} // closed when the outcome is certain, or nothing more is asked
	probed  chan struct{} // holds one for each answer of a probe node

	// Under hold.mu.
	verdict verdict
	probe   *answer // of the node that was probed last
	cause   error   // why the attempt failed although enough nodes had granted
}

// answer is one node's answer to an attempt. The hold's mutex guards it.
type answer struct {
	attempt   *attempt
	vote      *vote
	outcome   outcome
	wait      time.Duration // of a refusal: until the node may grant; −1 when it will not by itself
	listeners int           // of a refusal: connections that listen for a release
	token     uint64        // of a grant
	counted   bool          // the grant was there when the quorum was reached
}

// attempt asks the nodes once for the names. It returns the lock or, with everything undone, why it failed.
func (l *Locker) attempt(ctx context.Context, names []string, approach waiting.Approach) (*Lock, *attemptResult) {
	l.core.background.add() // so that Close does not close the nodes while what was granted is undone
	defer l.core.background.done()
	a := newAttempt(l, names, innermost(ctx))
	settled := false
	defer func() {
		if !settled { // a context of the caller's panicked
			a.hold.drop()
		}
	}()
	if approach == waiting.ProbeFirst {
		a.askProbeFirst(ctx)
	} else {
		a.askAll()
	}
	select {
	case <-a.decided:
	case <-ctx.Done():
	case <-l.core.closed:
	}
	if a.isWon() {
		a.settleToken(ctx)
	}
	if a.commit(ctx) {
		settled = true
		return &a.hold.first, nil
	}
	r := a.result(approach)
	r.err = a.undo(ctx)
	r.Held = errors.Is(r.err, ErrHeld)
	settled = true
	return nil, r
}

func newAttempt(l *Locker, names []string, outer *Lock) *attempt {
	h := newHold(l, scriptNames(names))
	h.first = Lock{hold: h, names: names, level: 1, outer: outer}
	a := &attempt{hold: h, decided: make(chan struct{}), answers: make([]answer, len(h.votes))}
	for i := range a.answers {
		a.answers[i] = answer{attempt: a, vote: &h.votes[i]}
	}
	return a
}

// askAll asks all nodes at once.
func (a *attempt) askAll() {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if !a.startLocked() {
		return
	}
	call := h.acquire()
	for i := range a.answers {
		a.askLocked(i, call)
	}
	a.decideLocked()
}

// acquire is the call by which the hold asks for a fresh grant.
func (h *hold) acquire() scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: 1, Lease: h.set.leaseMillis, MaxLease: h.core.maxLeaseMillis, Seed: tokenSeed(),
	})
}

// startLocked reads the clock before anything is sent. It returns false when too many nodes are known to be down: the others need
// not be asked then.
func (a *attempt) startLocked() bool {
	h := a.hold
	h.requestedAt = h.core.clock.Now()
	h.renewedAt = h.requestedAt
	down, refusing := make([]error, 0, 8), 0
	for i := range h.votes {
		err := h.pipe(i).Down()
		if down = append(down, err); err != nil {
			refusing++
		}
	}
	if judge(len(h.votes), h.core.need, 0, refusing) != lost {
		return true
	}
	for i, err := range down {
		if err != nil {
			a.answers[i].outcome, h.votes[i].err = unknown, err
		}
	}
	a.decideLocked()
	return false
}

func (a *attempt) askLocked(i int, call scripts.Call) {
	v := &a.hold.votes[i]
	v.sent = true
	if err := a.hold.pipe(i).Start(call, &v.claim, &a.answers[i]); err != nil {
		v.sent = false
		a.answers[i].outcome, v.err = unknown, err
	}
}

// Done takes a node's answer (pipeline.Receiver). It may come while others are awaited, after the quorum was reached (then it counts
// for the deadline only), or after the end (then its release is on the way).
func (n *answer) Done(r pipeline.Result) {
	a, v := n.attempt, n.vote
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	n.outcome, v.err = h.core.readGrant(v.node, r)
	switch reply := r.Reply.Acquire; n.outcome {
	case granted:
		n.token = reply.Token
		if err := h.confirmLocked(v, r.RunID, h.deadlineFor(h.requestedAt)); err != nil {
			n.outcome, v.err = unknown, err
		}
	case refused, quarantined:
		n.wait, n.listeners = reply.Wait, reply.Waiting
	}
	if h.phase == attempting {
		if n.provesNothingThere(r) {
			v.sent = false
		}
		a.decideLocked()
	}
	if n == a.probe {
		if n.outcome == refused {
			h.core.rtt.observe(h.core.clock.Now().Sub(h.requestedAt))
		}
		a.probed <- struct{}{}
	}
}

// provesNothingThere tells that nothing of the owner's can be on the node, now or later.
func (n *answer) provesNothingThere(r pipeline.Result) bool {
	if r.Err != nil {
		return !r.Sent || r.NothingDone
	}
	return (n.outcome == refused || n.outcome == quarantined) && !r.Resent
}

// count returns how many nodes gave an outcome.
func (a *attempt) count() (of [unknown + 1]int) {
	for i := range a.answers {
		of[a.answers[i].outcome]++
	}
	return of
}

// decideLocked closes decided as soon as the quorum is reached, or cannot be reached any more.
func (a *attempt) decideLocked() {
	if a.isDecided() {
		return
	}
	of := a.count()
	a.verdict = judge(len(a.answers), a.hold.core.need, of[granted], len(a.answers)-of[granted]-of[unanswered])
	if a.verdict == pending {
		return
	}
	for i := range a.answers {
		a.answers[i].counted = a.verdict == won && a.answers[i].outcome == granted
	}
	close(a.decided)
}

func (a *attempt) isDecided() bool {
	select {
	case <-a.decided:
		return true
	default:
		return false
	}
}

func (a *attempt) isWon() bool {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	return a.verdict == won
}

// commit makes a won attempt a held lock and schedules its renewal, if the locker is open and the lease is not over. Reading the clock
// is the last check.
func (a *attempt) commit(ctx context.Context) bool {
	h := a.hold
	if ctx.Err() != nil || !a.isWon() || a.cause != nil {
		return false
	}
	inTime := false
	held := h.core.schedule.add(&h.entry, func() bool {
		inTime = h.holdUnlessLate(ctx)
		return inTime
	})
	switch {
	case held:
		return true
	case h.core.isClosed():
		a.cause = ErrClosed
	default:
		a.cause = detail("the lease was over before enough nodes had granted it")
	}
	return false
}

// holdUnlessLate makes the hold a held one, if its deadline is to come.
func (h *hold) holdUnlessLate(ctx context.Context) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first.begin(ctx)
	if h.set.maxHold > 0 {
		h.limit = h.requestedAt.Add(h.set.maxHold)
	}
	h.refreshLocked()
	if !h.core.clock.Now().Before(h.deadline) {
		h.first.cancel(ErrNotAcquired)
		return false
	}
	h.phase = held
	h.planLocked(h.renewedAt)
	return true
}

// undo ends an attempt that failed: a release goes to every node that may have granted. It waits, as long as ctx allows, for those
// that did, and for a moment for those that may yet.
func (a *attempt) undo(ctx context.Context) *Error {
	err, certain, open := a.giveBack(ctx)
	moment := time.NewTimer(grace)
	defer moment.Stop()
	select {
	case <-open.decided:
	case <-moment.C:
	case <-ctx.Done():
	}
	select {
	case <-certain.decided:
	case <-ctx.Done():
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err.causes = append(err.causes, contextError(ctx)...)
	}
	return err
}

// giveBack sends the releases. Certain awaits the nodes that granted, open those that have not answered.
func (a *attempt) giveBack(ctx context.Context) (err *Error, certain, open *tally) {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	err = a.failureLocked(ctx)
	h.phase = failed
	of := a.count()
	certain, open = newTally(of[granted], of[granted]), newTally(of[unanswered], of[unanswered])
	h.abandonLocked(func(v *vote) *tally {
		switch a.answers[v.node].outcome {
		case granted:
			return certain
		case unanswered:
			return open
		default:
			return nil
		}
	})
	return err, certain, open
}

// attemptResult is what an attempt that failed leaves to go by.
type attemptResult struct {
	waiting.Result
	err      *Error
	approach waiting.Approach
	cut      bool // it was ended before its outcome was certain
}

// result says what the nodes said, before it is undone.
func (a *attempt) result(approach waiting.Approach) *attemptResult {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &attemptResult{Result: waiting.Result{Wait: -1}, approach: approach, cut: !a.isDecided()}
	waits := make([]time.Duration, 0, len(a.answers))
	for i := range a.answers {
		n := &a.answers[i]
		r.Listeners = max(r.Listeners, n.listeners)
		switch {
		case n.outcome == granted:
			r.Votes++
			waits = append(waits, 0)
		case n.outcome == unanswered && !n.vote.sent:
			waits = append(waits, 0)
		case (n.outcome == refused || n.outcome == quarantined) && n.wait >= 0:
			waits = append(waits, n.wait)
		}
	}
	if len(waits) >= h.core.need {
		slices.Sort(waits)
		r.Wait = waits[h.core.need-1]
	}
	return r
}
