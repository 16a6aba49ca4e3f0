package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// grace is how long a failed attempt waits for the nodes that had not answered when its outcome
	// was certain. Most of them answer within a round trip, so nothing is left on them when the call
	// returns. A slow node delays the call by no more.
	grace = 20 * time.Millisecond

	// busyFrom is how many attempts of a locker must be open for it to be busy. With fewer of them,
	// to ask a quorum first saves nothing that matters, and a lock stands on all nodes from the
	// start.
	busyFrom = 4
)

// attempt is one request for the lock to the nodes, until it has become a held lock or is undone.
type attempt struct {
	hold    *hold
	call    scripts.Call // the request for a grant
	room    [13]any      // for the arguments of call, with one name: as many as scripts.Acquire makes
	answers []answer
	few     [5]answer                // room for the usual number of nodes
	decided chan struct{}            // closed when the outcome is certain
	entry   schedule.Entry[*attempt] // in core.secondWaves

	// Under hold.mu.
	asked   bool          // the first wave
	timed   bool          // the times of its answers count for the rtt
	cleared chan struct{} // while it is waited for: closed once the answers tell whether the error is permanent

	waited bool // for grace, for nodes that have not answered
}

// answer is one node's answer to an attempt, and the receiver of it. The hold's mutex guards it.
type answer struct {
	attempt   *attempt
	command   lease.Command
	wait      time.Duration // of a refusal or quarantine: until the node can grant; −1 for a key that never expires
	holder    string        // of a refusal: the owner that is there
	listeners int           // of a refusal: connections that subscribe to the channel
}

func newAttempt(c *core, set *settings, names []string, outer *Lock) *attempt {
	h := newHold(c, set, names)
	h.first = Lock{hold: h, level: 1, outer: outer}
	h.first.setNames(names)
	a := &attempt{hold: h, decided: make(chan struct{})}
	a.answers = a.few[:0]
	for range h.members {
		a.answers = append(a.answers, answer{attempt: a})
	}
	h.attempt = a
	return a
}

// attempt makes one attempt at the names, and one more where the first had no other obstacle than a
// neighbour's token. It returns the lock, or else undoes the attempt and returns its result. With a
// lock, the result is nil where there is no hook for it.
func (c *core) attempt(
	ctx context.Context, set *settings, names []string, approach waiting.Approach,
) (*Lock, *attemptResult) {
	lock, r := c.attemptOnce(ctx, set, names, approach)
	if r != nil && r.movedOn && ctx.Err() == nil {
		return c.attemptOnce(ctx, set, names, approach)
	}
	return lock, r
}

func (c *core) attemptOnce(
	ctx context.Context, set *settings, names []string, approach waiting.Approach,
) (*Lock, *attemptResult) {
	if err := c.awaitList(ctx); err != nil {
		err.Names = slices.Clone(names)
		c.counters.attempts[outcomeOf(err)].Add(1)
		r := &attemptResult{Result: waiting.Result{Wait: -1}, err: err, approach: approach, cut: ctx.Err() != nil}
		r.of[lease.Unanswered] = len(c.nodes)
		return nil, r
	}
	c.background.add() // so that Close does not close the nodes before the attempt is undone
	defer c.background.done()
	a := newAttempt(c, set, names, innermost(ctx))
	settled := false
	defer func() {
		if !settled { // the caller's context has panicked
			a.hold.releaseInterrupted()
		}
	}()
	a.askAndWait(ctx, approach)
	a.askWhetherPermanent(ctx)
	a.countWriteBacks()
	if a.commit(ctx) {
		settled = true
		c.counters.attempts[outcomeAcquired].Add(1)
		if set.hooks.Attempt != nil {
			return &a.hold.first, a.result(approach)
		}
		return &a.hold.first, nil
	}
	r := a.result(approach)
	r.err = a.undo(ctx)
	r.Held = errors.Is(r.err, ErrHeld)
	c.counters.attempts[outcomeOf(r.err)].Add(1)
	settled = true
	return nil, r
}

// askAndWait asks the nodes, and waits until the outcome is certain, or the call or the Locker ends.
func (a *attempt) askAndWait(ctx context.Context, approach waiting.Approach) {
	c := a.hold.core
	c.openAttempts.Add(1)
	defer c.openAttempts.Add(-1) // also when the caller's context panics
	a.ask(approach)
	select {
	case <-a.decided:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// ask asks the first wave, and schedules the second one: two steps after the first, whether the
// attempt is open then or has become a lock.
func (a *attempt) ask(approach waiting.Approach) {
	if a.askFirstWave(approach) {
		a.hold.core.secondWaves.Add(&a.entry, func() bool { return true })
	}
}

// askFirstWave reads the clock before any request is sent. It reports whether nodes are left for a
// second wave.
func (a *attempt) askFirstWave(approach waiting.Approach) (left bool) {
	h := a.hold
	c := h.core
	h.mu.Lock()
	defer h.mu.Unlock()
	now := c.clock.Now()
	a.call = scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: 1, Lease: h.set.leaseMillis, List: h.list, Seed: tokenSeed(),
		Room: a.room[:0],
	})
	wave := lease.Wave{Size: len(a.answers), Probe: approach == waiting.ProbeFirst}
	compares := !wave.Probe && c.rtt.MustCompare(now)
	switch {
	case wave.Probe:
		wave.Size, a.timed = 1, true
	case approach == waiting.QuorumFirst && c.isQuorumFirst(compares):
		wave.Size = c.need
	default:
		a.timed = compares
	}
	var order [8]int
	wave.Order = c.order(order[:0], h.first.names, !wave.Probe)
	for i := range h.members {
		err := h.pipe(i).Down()
		if err == nil {
			continue
		}
		h.members[i].err = err
		wave.Down |= 1 << i
		if isPermanent(err) {
			wave.Permanent |= 1 << i
		}
	}
	step := c.rtt.Step(c.need)
	a.entry = schedule.Entry[*attempt]{Owner: a, At: now.Add(2 * step), Early: step / 2}
	var room [8]lease.Command
	h.carryOutLocked(h.lease.Begin(now, wave, room[:0]), callers{attempt: a})
	a.asked = true
	return h.lease.HasSecondWave() && h.lease.Verdict() != lease.Lost
}

// isQuorumFirst reports whether an attempt that most likely is alone asks a quorum first.
func (c *core) isQuorumFirst(compares bool) bool {
	if c.quorumFirst != nil {
		return c.quorumFirst(c.lastOwner.Load())
	}
	return c.openAttempts.Load() >= busyFrom && !compares
}

// order appends the nodes in the order in which an attempt at the names asks them. It begins with a
// node that is the same for all processes, in whatever order the names are given, so that each node
// gets its share. With slowLast slow nodes come last: the order of a probe is the same for all
// processes.
func (c *core) order(all []int, names []string, slowLast bool) []int {
	first := int(hash(slices.Min(names)) % uint32(len(c.nodes)))
	isSlow := uint64(0) // bit by node; read once, because it may change at any time
	for i := range c.nodes {
		if slowLast && c.rtt.IsSlow(i) {
			isSlow |= 1 << i
		}
	}
	for _, slow := range [...]bool{false, true} {
		for k := range c.nodes {
			i := (first + k) % len(c.nodes)
			if isSlow&(1<<i) != 0 == slow {
				all = append(all, i)
			}
		}
	}
	return all
}

// send sends the request for a grant to a node.
func (a *attempt) send(c lease.Command) error {
	if a.asked {
		a.timed = false // it is asked later than the others
	}
	to, h := &a.answers[c.Master], a.hold
	to.command = c
	call := a.call
	if c.Level > 1 { // it goes out again, and the lock was entered again meanwhile
		call = h.acquireAgain(c)
	}
	return h.pipe(c.Master).Start(call, &h.members[c.Master].claim, to)
}

// Done receives a node's answer ([pipeline.Receiver]). It may come while other answers are awaited;
// after the quorum was reached, when it counts for the deadline only; or after the attempt's end,
// when its release has been sent.
func (n *answer) Done(r pipeline.Result) {
	reply, err := n.attempt.hold.read(n.command, r, 0)
	n.take(reply, err, r.Reply.Acquire)
}

func (n *answer) take(reply lease.Reply, err error, said scripts.AcquireReply) {
	n.attempt.hold.answer(n.command, reply, err,
		callers{attempt: n.attempt, said: said, resent: reply.Resent, to: n})
}

// noteLocked notes what an answer says besides its outcome, and how long it took.
func (a *attempt) noteLocked(node int, reply lease.Reply, said scripts.AcquireReply) {
	if a.timed && reply.Is != lease.Failed && reply.Is != lease.NotAccepted {
		a.hold.core.rtt.Observe(node, a.hold.core.clock.Now().Sub(a.hold.lease.BegunAt()))
	}
	if n := &a.answers[node]; reply.Is == lease.Refused || reply.Is == lease.Barred || reply.Is == lease.Quarantined {
		n.wait, n.holder, n.listeners = said.Wait, said.Holder, said.Waiting
	}
}

// askSecondWaves asks the second waves that are due (schedule.Due). It tells the rtt of the nodes
// that have not answered, so that further attempts ask them last.
func (c *core) askSecondWaves(now clock.Instant, due []*schedule.Entry[*attempt]) (after func()) {
	for _, e := range due {
		e.Over = true
		e.Owner.askSecondWave(now)
	}
	return func() {}
}

func (a *attempt) askSecondWave(now clock.Instant) {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.Phase() == lease.Asking && h.lease.Verdict() == lease.Open {
		for i := range a.answers {
			if h.lease.AnswerOf(i) == lease.Unanswered {
				h.core.rtt.Observe(i, now.Sub(h.lease.BegunAt()))
			}
		}
	}
	var room [8]lease.Command
	h.carryOutLocked(h.lease.SecondWave(now, room[:0]), callers{attempt: a})
}

// askWhetherPermanent asks the nodes whose errors can make the attempt's permanent: one node's
// permanent error may be that of all, a wrong list of masters, say. It waits for grace at most, and
// undo does not wait for these nodes again: the call takes no longer than without.
func (a *attempt) askWhetherPermanent(ctx context.Context) {
	cleared := a.askTheRest()
	if cleared == nil {
		return
	}
	moment := time.NewTimer(grace)
	defer moment.Stop()
	select {
	case <-cleared:
	case <-moment.C:
		a.waited = true
	case <-ctx.Done():
	case <-a.hold.core.closed:
	}
}

// askTheRest returns a channel that is closed once no answer can make a difference any more, nil if
// none can now.
func (a *attempt) askTheRest() <-chan struct{} {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [8]lease.Command
	unclear, commands := h.lease.AskWhetherPermanent(room[:0])
	if !unclear {
		return nil
	}
	cleared := make(chan struct{})
	a.cleared = cleared
	h.carryOutLocked(commands, callers{attempt: a}) // the nodes may be down
	return cleared
}

func (a *attempt) noteCleared() {
	if a.cleared != nil {
		close(a.cleared)
		a.cleared = nil
	}
}

func (a *attempt) countWriteBacks() {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	a.hold.core.counters.writeBacks.Add(uint64(a.hold.lease.Raises()))
}

// commit makes the attempt a held lock and schedules its renewal, if the quorum is reached, the
// Locker is open and the deadline has not passed.
func (a *attempt) commit(ctx context.Context) bool {
	h := a.hold
	if ctx.Err() != nil || !a.isSettled() {
		return false
	}
	h.first.begin(ctx) // before any mutex is locked: ctx is the caller's code
	if h.core.schedule.Add(&h.entry, h.holdUnlessLate) {
		h.core.introduction.Keep(h.lease.BegunAt())
		return true
	}
	h.first.cancel(ErrNotAcquired)
	return false
}

func (a *attempt) isSettled() bool {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	return a.hold.lease.IsSettled()
}

// holdUnlessLate makes the hold a lock, unless its deadline has passed. The clock is read last.
func (h *hold) holdUnlessLate() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lease.Hold(h.core.clock.Now()) {
		return false
	}
	h.entry.At, h.entry.Early = h.lease.Next()
	if !h.lease.HasSecondWave() {
		h.attempt = nil
	}
	return true
}

// undo ends a failed attempt: a release goes to every node that may have granted. undo waits for
// the nodes that granted, and at most grace for those that have not answered, but no longer than
// ctx allows.
func (a *attempt) undo(ctx context.Context) *Error {
	err, certain, open := a.startUndo(ctx)
	patience := grace
	if a.waited {
		patience = 0
	}
	moment := time.NewTimer(patience)
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
	err.noteEnd(ctx)
	return err
}

// startUndo sends the releases. certain counts the replies of the nodes that granted, open those of
// the nodes that have not answered.
func (a *attempt) startUndo(ctx context.Context) (err *Error, certain, open *tally) {
	h, ended := a.hold, contextError(ctx) // before the mutex is locked: ctx is the caller's code
	h.mu.Lock()
	defer h.mu.Unlock()
	err = a.failureLocked(ended)
	of := h.lease.Count()
	certain = newTally(of[lease.Granted], of[lease.Granted])
	open = newTally(of[lease.Unanswered], of[lease.Unanswered])
	var room [8]lease.Command
	h.releaseLocked(h.lease.GiveUp(room[:0]), callers{undo: &undo{certain, open}})
	return err, certain, open
}

// attemptResult is what an attempt found out; of one that became a lock, for a hook only.
type attemptResult struct {
	waiting.Result
	err        *Error
	approach   waiting.Approach
	cut        bool // the attempt ended before its outcome was certain
	movedOn    bool // it failed for errMovedOn
	of         lease.Counts
	writeBacks int
}

// result returns what the nodes answered. It must be called before undo.
func (a *attempt) result(approach waiting.Approach) *attemptResult {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &attemptResult{Result: waiting.Result{Wait: -1}, approach: approach,
		cut: h.lease.Verdict() == lease.Open, movedOn: h.lease.Cause() == lease.MovedOn}
	r.of, r.writeBacks = h.lease.Count(), h.lease.Raises()
	waits := make([]time.Duration, 0, len(a.answers))
	for i := range a.answers {
		n := &a.answers[i]
		r.Listeners = max(r.Listeners, n.listeners)
		switch h.lease.AnswerOf(i) {
		case lease.Granted:
			r.Votes++
			waits = append(waits, 0)
		case lease.Unasked:
			waits = append(waits, 0)
		case lease.Refused, lease.Quarantined:
			if n.wait >= 0 {
				waits = append(waits, n.wait)
			}
		}
	}
	if len(waits) >= h.core.need && h.lease.Verdict() != lease.Won { // a won attempt failed for another reason
		slices.Sort(waits)
		r.Wait = waits[h.core.need-1]
	}
	return r
}
