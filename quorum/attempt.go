package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// grace is how long a failed attempt waits for nodes that had not replied when its outcome was
	// certain. Most of them reply within a round trip, so nothing is left on them when the call
	// returns. A slow node delays the call by no more than this.
	grace = 20 * time.Millisecond
)

var reservationMillis = scripts.ToMillis(waiting.ReservationLife)

// attempt is one request for the lock to the nodes, until it has become a held lock or is undone.
type attempt struct {
	hold     *hold
	call     scripts.Call // the request for a grant
	room     [13]any      // for the arguments of call, with one name: as many as scripts.Acquire makes
	requests []grantRequest
	few      [5]grantRequest // room for the usual number of nodes
	probe    int             // of slots: the node that is asked first by ProbeFirst
	decided  chan struct{}   // closed when the outcome is certain

	// Under hold.mu.
	asked bool // the first nodes: all, or the probe node
	timed bool // the times until its replies count for the rtt
}

// grantRequest is an attempt's request to one node, with what the node has replied if it granted
// nothing. The hold's mutex guards it.
type grantRequest struct {
	request
	wait      time.Duration // of a refusal or quarantine: until the node can grant; −1 for a key that never expires
	holder    string        // of a refusal: the owner that is there
	listeners int           // of a refusal: connections that subscribe to the channel
	readers   int           // of a refusal by readers alone: how many
	reserved  bool          // it refuses a reader, because a writer waits
	refusal   lease.Answer  // Refused, Barred or Quarantined; Unasked for none
}

func newAttempt(c *core, set *settings, names []string, outer *Lock) *attempt {
	h := newHold(c, set, names)
	h.first = Lock{hold: h, level: 1, outer: outer}
	h.first.setNames(names)
	a := &attempt{hold: h, decided: make(chan struct{})}
	a.requests = a.few[:0]
	for range h.members {
		a.requests = append(a.requests, grantRequest{request: request{hold: h, attempt: a}})
	}
	h.attempt = a
	return a
}

// attempt makes one attempt, and a second one if only another name's token stood in the way of the
// first. It returns the lock, or else undoes the attempt and returns its result. With a lock, the
// result is nil unless a hook needs it.
func (c *core) attempt(
	ctx context.Context, set *settings, what target, approach waiting.Approach,
) (*Lock, *attemptResult) {
	lock, r := c.attemptOnce(ctx, set, what, approach)
	if r != nil && r.movedOn && ctx.Err() == nil {
		return c.attemptOnce(ctx, set, what, approach)
	}
	return lock, r
}

// target is what an attempt is for: all of the names, or slots of the semaphore names[0].
type target struct {
	names       []string
	slots       []int          // nil for names
	probe       int            // of slots: the node that an attempt by ProbeFirst asks first
	predecessor *scripts.Owner // from which to take over; nil for none
}

// keys returns the names of the locks on the nodes.
func (t target) keys() []string {
	if t.slots == nil {
		return t.names
	}
	return scripts.SlotNames(t.names[0], t.slots)
}

func (c *core) attemptOnce(
	ctx context.Context, set *settings, what target, approach waiting.Approach,
) (*Lock, *attemptResult) {
	c.background.add() // so that Close does not close the nodes before the attempt is undone
	defer c.background.done()
	if err := c.awaitList(ctx); err != nil {
		err.Names = slices.Clone(what.names)
		c.counters.attempts[outcomeOf(err)].Add(1)
		r := &attemptResult{Result: waiting.Result{Wait: -1}, err: err, approach: approach, cut: ctx.Err() != nil}
		r.of[lease.Unanswered] = len(c.nodes)
		return nil, r
	}
	a := newAttempt(c, set, what.keys(), innermost(ctx))
	a.hold.predecessor = what.predecessor
	if what.slots != nil {
		a.hold.first.setSlots(what.names[0], what.slots)
		a.probe = what.probe
	}
	ended := false
	defer func() {
		if !ended { // the caller's context has panicked
			a.hold.releaseInterrupted()
		}
	}()
	a.askAndWait(ctx, approach)
	a.countWriteBacks()
	if a.commit(ctx) {
		ended = true
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
	ended = true
	return nil, r
}

// askAndWait asks the nodes, and waits until the outcome is certain, or the call or the Locker ends.
func (a *attempt) askAndWait(ctx context.Context, approach waiting.Approach) {
	c := a.hold.core
	a.ask(approach)
	if approach.Probes() {
		late := c.clock.AfterFunc(2*c.rtt.Step(c.need), a.askOthers)
		defer late.Stop()
	}
	select {
	case <-a.decided:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// ask reads the clock before any request is sent.
func (a *attempt) ask(approach waiting.Approach) {
	h := a.hold
	c := h.core
	h.mu.Lock()
	defer h.mu.Unlock()
	now := c.clock.Now()
	args := scripts.AcquireArgs{Level: 1, Lease: h.set.leaseMillis, Seed: tokenSeed(), Room: a.room[:0]}
	if approach.Reserves() && !h.set.isReader() {
		args.Reservation = reservationMillis
	}
	a.call = h.grantCall(h.lease.Mode(), args)
	plan := lease.Plan{First: c.firstNode(h.first.keys()), Probe: approach.Probes()}
	if plan.Probe && h.first.slots != nil {
		plan.First = a.probe
	}
	a.timed = plan.Probe || c.rtt.Samples(now)
	for i := range h.members {
		err := h.pipe(i).Down()
		if err == nil {
			continue
		}
		h.members[i].err = err
		plan.Down |= 1 << i
		plan.Permanent = plan.Permanent || isPermanent(err)
	}
	var room [8]lease.Command
	h.carryOutLocked(h.lease.Begin(now, plan, room[:0]), nil)
	a.asked = true
}

// firstNode returns the node that attempts at the names ask first: the same for all processes, in
// whatever order the names are given. Each node gets its share of the names.
func (c *core) firstNode(names []string) int {
	return int(hash(slices.Min(names)) % uint32(len(c.nodes)))
}

// noteReply notes how long a node's reply took, and what a refusal says of the holder.
func (a *attempt) noteReply(node int, reply lease.Reply, said scripts.AcquireReply) {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.timed && reply.Is != lease.Failed && reply.Is != lease.NotAccepted {
		h.core.rtt.Observe(node, h.core.clock.Now().Sub(h.lease.BegunAt()))
	}
	if r := &a.requests[node]; reply.Is == lease.Refused || reply.Is == lease.Barred || reply.Is == lease.Quarantined {
		r.wait, r.holder, r.listeners = said.Wait, said.Holder, said.Waiting
		r.readers, r.reserved, r.refusal = said.Readers, said.Reserved, reply.Is
	}
}

// askOthers asks the nodes that were not asked, because the probe node does not answer.
func (a *attempt) askOthers() {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [8]lease.Command
	h.carryOutLocked(h.lease.AskOthers(room[:0]), nil)
}

func (a *attempt) countWriteBacks() {
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	a.hold.core.counters.writeBacks.Add(uint64(a.hold.lease.WriteBacks()))
}

// commit makes the attempt a held lock and schedules its renewal, if the quorum is reached, the
// Locker is open and the deadline has not passed.
func (a *attempt) commit(ctx context.Context) bool {
	h := a.hold
	if ctx.Err() != nil || !a.isSettled() {
		return false
	}
	h.first.makeContext(ctx) // before any mutex is locked: ctx is the caller's code
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
	h.attempt = nil // a lock may live for long
	return true
}

// undo ends a failed attempt: a release goes to every node that may have granted. undo waits for the
// nodes that granted, and for grace at most for those that have not replied, but not after ctx ends.
// What they reply meanwhile may make the error permanent.
func (a *attempt) undo(ctx context.Context) *Error {
	err, granted, open := a.startUndo(ctx)
	open.awaitFor(ctx, grace)
	select {
	case <-granted.decided:
	case <-ctx.Done():
	}
	a.hold.mu.Lock()
	err.Nodes = a.hold.nodesErrorLocked()
	a.countLateLocked(err)
	a.hold.mu.Unlock()
	err.noteEnd(ctx)
	return err
}

// countLateLocked counts in err the nodes that refused after the outcome was certain.
func (a *attempt) countLateLocked(err *Error) {
	for i := range a.requests {
		if a.hold.lease.AnswerOf(i) != lease.Unanswered {
			continue
		}
		switch a.requests[i].refusal {
		case lease.Refused:
			err.Refused, err.Unknown = err.Refused+1, err.Unknown-1
		case lease.Quarantined:
			err.Quarantined, err.Unknown = err.Quarantined+1, err.Unknown-1
		}
	}
}

// startUndo sends the releases. granted counts their replies from the nodes that had granted. open counts
// what the nodes that had not replied say to the request, and to its release if they get one.
func (a *attempt) startUndo(ctx context.Context) (err *Error, granted, open *tally) {
	h, ended := a.hold, contextError(ctx) // before the mutex is locked: ctx is the caller's code
	h.mu.Lock()
	defer h.mu.Unlock()
	err = a.failureLocked(ended)
	var toGranted, toOpen, toOthers []lease.Command
	for _, c := range h.lease.GiveUp(nil) {
		switch h.lease.AnswerOf(c.Master) {
		case lease.Granted:
			toGranted = append(toGranted, c)
		case lease.Unanswered:
			toOpen = append(toOpen, c)
		default:
			toOthers = append(toOthers, c)
		}
	}
	granted = newTally(len(toGranted), len(toGranted))
	open = newTallyOfAll(h.lease.Count()[lease.Unanswered] + len(toOpen))
	for i := range a.requests {
		if h.lease.AnswerOf(i) == lease.Unanswered {
			a.requests[i].tally = open // nothing reads it before the reply is taken, under mu
		}
	}
	h.carryOutLocked(toGranted, granted)
	h.carryOutLocked(toOpen, open)
	h.carryOutLocked(toOthers, nil)
	return err, granted, open
}
