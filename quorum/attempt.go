package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

// attempt asks the nodes once for the names, and returns the lock or, with everything undone, why it failed.
func (l *Locker) attempt(ctx context.Context, names []string, approach waiting.Approach) (*Lock, *attemptResult) {
	l.core.background.add() // so that Close does not close the nodes while what was granted is undone
	defer l.core.background.done()
	outer := innermost(ctx)
	h := newHold(l, scriptNames(names))
	h.first = Lock{hold: h, names: names, level: 1, outer: outer}
	settled := false
	defer func() {
		if !settled { // the context or the clock, which are the caller's, panicked
			h.drop()
		}
	}()
	if approach == waiting.ProbeFirst {
		h.knock(ctx)
	} else {
		h.ask()
	}

	select {
	case <-h.decided:
	case <-ctx.Done():
	case <-h.core.closed:
	}
	if h.isWon() {
		h.settleToken(ctx)
	}
	if h.take(ctx) {
		settled = true
		return &h.first, nil
	}
	r := h.result()
	r.approach = approach
	r.err = h.undo(ctx)
	r.Held = errors.Is(r.err, ErrHeld)
	settled = true
	return nil, r
}

// drop lets go of an attempt, or of the lock that it has become, in the midst of which code of the caller's panicked or ended the
// goroutine. It waits for nobody, and does nothing where the hold has ended already.
func (h *hold) drop() {
	h.core.schedule.remove(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.phase {
	case asking:
		h.phase = failed
	case held, closed:
		h.phase = released
	default:
		return
	}
	h.first.unlocked.Store(true)
	defer h.abandonLocked(unheard)
	if h.first.cancel != nil {
		h.endContextsLocked(ErrReleased)
	}
}

// ask sends the request for a grant to all nodes.
func (h *hold) ask() {
	call := h.acquire()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.startLocked() {
		return
	}
	for i := range h.votes {
		h.askLocked(i, call)
	}
	h.decideLocked()
}

func (h *hold) acquire() scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: 1, Lease: h.set.leaseMillis, MaxLease: h.core.maxLeaseMillis, Seed: seed(),
	})
}

// startLocked reads the clock, before anything is sent. It returns false when there is no use in asking.
func (h *hold) startLocked() bool {
	h.asked = h.core.clock.Now()
	h.begun = h.asked
	if h.isHopelessLocked() {
		h.decideLocked()
		return false
	}
	return true
}

func (h *hold) askLocked(i int, call scripts.Call) {
	v := &h.votes[i]
	v.asked = true
	if err := h.core.nodes[i].Pipe(h.lane()).Start(call, &v.claim, v); err != nil {
		v.asked = false
		v.answer, v.err = failure, err
	}
}

// isHopelessLocked tells that too many nodes are known to be down: the others need not be troubled then.
func (h *hold) isHopelessLocked() bool {
	down, refusing := make([]error, 0, 8), 0
	for _, n := range h.core.nodes {
		err := n.Pipe(h.lane()).Down()
		if down = append(down, err); err != nil {
			refusing++
		}
	}
	if judge(len(h.votes), h.core.need, 0, refusing) != lost {
		return false
	}
	for i, err := range down {
		if err != nil {
			h.votes[i].answer, h.votes[i].err = failure, err
		}
	}
	return true
}

// seed is where a token counter that was lost starts again: above all that this clock ever gave it.
func seed() uint64 {
	micros := time.Now().UnixMicro()
	if micros < 0 || micros >= 1<<52 {
		return 0 // a clock that is centuries off must not use up the counters
	}
	return uint64(micros)
}

// Done takes a node's answer to the request for a grant (pipeline.Receiver). It may come while others are awaited, after the rule
// was met (then it counts for the deadline only), or after the end (then its release is on the way).
func (v *vote) Done(r pipeline.Result) {
	h := v.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	answer, err := h.readGrant(v, r)
	v.answer, v.err = answer, err
	if h.phase == asking && (answer == failure && (!r.Sent || r.NothingDone) || (answer == refused || answer == quarantined) && !r.Resent) {
		v.asked = false // nothing of the owner's can be there, now or later
	}
	if answer == granted {
		if err := h.confirmLocked(v, r.RunID, clock.Deadline(h.asked, h.set.lease, h.set.drift)); err != nil {
			v.answer, v.err = failure, err
		}
	}
	if h.phase == asking {
		h.decideLocked()
	}
	if v == h.knocked {
		if answer == refused {
			h.core.rtt.observe(h.core.clock.Now().Sub(h.asked))
		}
		h.answered <- struct{}{}
	}
}

// readGrant reads the answer to an acquire of any kind.
func (h *hold) readGrant(v *vote, r pipeline.Result) (answer, error) {
	if r.Err != nil {
		return failure, r.Err
	}
	switch reply := r.Reply.Acquire; reply.Outcome {
	case scripts.Granted:
		v.token = reply.Token
		return granted, nil
	case scripts.Quarantined:
		v.wait = reply.Wait
		return quarantined, nil
	case scripts.Held:
		v.wait, v.waiting = reply.Wait, reply.Waiting
		return refused, nil
	case scripts.Released:
		return refused, nil
	default: // Stale, although the marker has just been written: somebody else writes another one
		return failure, h.core.blame(v.node, "acquire", errors.New("the node's marker changes under us"))
	}
}

// decideLocked closes decided as soon as the rule is met, or cannot be met any more.
func (h *hold) decideLocked() {
	select {
	case <-h.decided:
		return
	default:
	}
	yes, no := 0, 0
	for i := range h.votes {
		switch h.votes[i].answer {
		case unanswered:
		case granted:
			yes++
		default:
			no++
		}
	}
	verdict := judge(len(h.votes), h.core.need, yes, no)
	if verdict == pending {
		return
	}
	h.won = verdict == won
	for i := range h.votes {
		h.votes[i].read = h.won && h.votes[i].answer == granted
	}
	close(h.decided)
}

func (h *hold) isWon() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.won
}

// settleToken chooses the fencing token out of the grants that were read when the rule was met, and has the nodes among them
// that stand lower raise their counters to it. When one of them does not confirm, the attempt has failed.
func (h *hold) settleToken(ctx context.Context) {
	h.mu.Lock()
	token, behind := chooseToken(h.votes)
	h.token = token
	h.mu.Unlock()
	if behind > 0 {
		h.writeBack(ctx, token)
	}
}

// writeBack raises the counters that stand lower. The waiting ends with the caller's context; the commands do not. Exactly as many
// grants were read as the rule needs, so every one of them must confirm.
func (h *hold) writeBack(ctx context.Context, token uint64) {
	group, ctx := errgroup.WithContext(ctx)
	h.mu.Lock()
	for i := range h.votes {
		if v := &h.votes[i]; !v.read || v.token == token {
			continue
		}
		call := scripts.Raise(h.names, h.owner, h.votes[i].token, token)
		group.Go(func() error {
			r := h.core.nodes[i].Pipe(h.lane()).Do(ctx, call)
			if r.Err == nil && !r.Reply.Raise {
				return h.core.blame(i, "raise", errors.New("the grant that was read was gone before the token was written back"))
			}
			return r.Err
		})
	}
	h.mu.Unlock()
	if err := group.Wait(); err != nil {
		h.mu.Lock()
		h.reason = err
		h.mu.Unlock()
	}
}

// take makes the attempt a held lock, if it was won and all else is well. Reading the clock is its last check.
func (h *hold) take(ctx context.Context) bool {
	taken, inTime := h.begin(ctx)
	if !taken {
		return false
	}
	open := inTime && h.core.schedule.add(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	if open && h.validLocked() {
		h.known = true
		return true
	}
	h.phase = asking // also when the schedule was quicker to find that it is lost
	if h.reason = ErrClosed; !inTime || open {
		h.reason = wordsOnly("the lease was over before enough nodes had granted it")
	}
	h.first.cancel(ErrNotAcquired)
	return false
}

// begin makes the attempt a held lock, if it was won. It may be over already.
func (h *hold) begin(ctx context.Context) (taken, inTime bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.won || h.reason != nil || ctx.Err() != nil {
		return false, false
	}
	h.first.begin(ctx)
	if h.set.maxHold > 0 {
		h.limit = h.asked.Add(h.set.maxHold)
	}
	h.refreshLocked()
	h.phase = held
	return true, h.validLocked()
}

// grace is how long an attempt that failed waits for nodes that had not answered when that was certain. Most answer within a
// round trip, and then nothing is left on them when the caller hears of the failure; nobody waits for a slow one.
const grace = 20 * time.Millisecond

// undo ends an attempt that failed: a release goes to every node that may have granted it. It waits, as long as ctx allows, for
// those that did, and for a moment for those that may yet.
func (h *hold) undo(ctx context.Context) *Error {
	h.core.schedule.remove(h)
	err, certain, open := h.giveBack(ctx)
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

// giveBack sends the releases of an attempt that failed: to those that granted it, and to those that may yet.
func (h *hold) giveBack(ctx context.Context) (err *Error, certain, open *round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	err = h.failureLocked(ctx)
	h.phase = failed
	var count [failure + 1]int
	for i := range h.votes {
		count[h.votes[i].answer]++
	}
	certain, open = newRound(count[granted], count[granted]), newRound(count[unanswered], count[unanswered])
	h.abandonLocked(func(v *vote) *round {
		switch v.answer {
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

// failureLocked says why the attempt failed.
func (h *hold) failureLocked(ctx context.Context) *Error {
	e := h.errorLocked("lock", ErrNotAcquired, "")
	switch {
	case ctx.Err() != nil:
		e.causes = append(e.causes, contextError(ctx)...)
	case h.core.isClosed() && h.reason != ErrClosed:
		e.causes = append(e.causes, ErrClosed)
	}
	undecided := false
	select {
	case <-h.decided:
	default:
		undecided = true
	}
	var failed *node.Error
	switch {
	case h.won && ctx.Err() != nil: // won, but too late for the caller
	case errors.As(h.reason, &failed): // the token could not be written back
		e.causes = append(e.causes, ErrUnavailable)
		e.Nodes = multierror.Append(e.Nodes, h.reason)
	case h.reason != nil:
		e.causes = append(e.causes, h.reason)
	case h.won: // won, but the locker was closed
	case undecided && !errors.Is(ctx.Err(), context.DeadlineExceeded): // nobody can tell
	case undecided:
		e.causes = append(e.causes, ErrUnavailable)
	default:
		e.causes = append(e.causes, h.obstacleLocked())
	}
	return e
}

// obstacleLocked is the least that would have to change for the lock to be had, if the nodes that have not answered grant it: a
// holder's release, the end of a quarantine, or nodes that answer.
func (h *hold) obstacleLocked() error {
	var count [failure + 1]int
	for i := range h.votes {
		count[h.votes[i].answer]++
	}
	willing := count[granted] + count[unanswered]
	switch {
	case willing+count[refused] >= h.core.need:
		return ErrHeld
	case willing+count[refused]+count[quarantined] >= h.core.need:
		return ErrQuarantined
	default:
		return ErrUnavailable
	}
}

// attemptResult is what an attempt that failed leaves to go by.
type attemptResult struct {
	waiting.Result
	err      *Error
	approach waiting.Approach
	cut      bool // it was ended before its outcome was certain
}

// result says what the nodes said, before it is undone.
func (h *hold) result() *attemptResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &attemptResult{Result: waiting.Result{Wait: -1}}
	select {
	case <-h.decided:
	default:
		r.cut = true
	}
	waits := make([]time.Duration, 0, len(h.votes))
	for i := range h.votes {
		v := &h.votes[i]
		r.Listeners = max(r.Listeners, v.waiting)
		switch {
		case v.answer == granted:
			r.Votes++
			waits = append(waits, 0)
		case v.answer == unanswered && !v.asked:
			waits = append(waits, 0)
		case (v.answer == refused || v.answer == quarantined) && v.wait >= 0:
			waits = append(waits, v.wait)
		}
	}
	if len(waits) >= h.core.need {
		slices.Sort(waits)
		r.Wait = waits[h.core.need-1]
	}
	return r
}
