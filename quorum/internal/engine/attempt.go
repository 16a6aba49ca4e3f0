package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// Grace is how long a failed attempt waits for nodes that had not replied when its outcome was
// certain. Most of them reply within a round trip, so nothing is left on them when the call
// returns. A slow node delays the call by no more than this.
const Grace = 20 * time.Millisecond

var reservationMillis = scripts.ToMillis(waiting.ReservationLife)

// attempt is one request for the lock to the nodes, until it has become a held lock or is undone.
type attempt struct {
	hold     *Hold
	call     scripts.Call // the request for a grant
	requests []grantRequest
	room     [usualNodes]grantRequest
	probe    int           // the node that is asked first by ProbeFirst; −1 for the node of the names
	decided  chan struct{} // closed when the outcome is certain

	asked bool        // the first nodes: all, or the probe node; under hold.mu
	timed atomic.Bool // the times until its replies count for the RTT
}

// grantRequest is an attempt's request to one node, with what the node has replied if it granted
// nothing. The hold's mutex guards it.
type grantRequest struct {
	request
	answer *NodeAnswer // of a refusal, without Is and Err; else nil
}

// Attempt makes one attempt: the hold becomes a lock, or the attempt is undone. It is called once. probe is the node that
// an attempt by ProbeFirst asks first, −1 for the node of the names. o is nil on success unless wantOutcome.
func (h *Hold) Attempt(ctx context.Context, probe int, approach waiting.Approach, wantOutcome bool) (acquired bool, o *Outcome) {
	e := h.engine
	e.background.add() // so that Locker.Close does not close the nodes before the attempt is undone
	defer e.background.done()
	if refusals, known := e.awaitList(ctx); !known {
		return false, e.unlisted(ctx, refusals, approach)
	}
	h.list = e.Roster.List()
	a := newAttempt(h, probe)
	returned := false
	defer func() {
		if !returned { // the caller's context has panicked
			h.Interrupt()
		}
	}()
	a.askAndWait(ctx, approach)
	if acquired = a.commit(ctx); acquired {
		if wantOutcome {
			h.mu.Lock()
			o = a.outcomeLocked(approach)
			h.mu.Unlock()
			o.Kind = Acquired
		}
	} else {
		o = a.undo(ctx, approach)
	}
	returned = true
	return acquired, o
}

// awaitList waits until the list of masters is known. While a node's name is unknown, it asks all nodes. If the list
// is still unknown then, refusals has each node's error; it is nil if ctx or the engine has ended.
func (e *Engine) awaitList(ctx context.Context) (refusals []error, known bool) {
	switch {
	case e.IsClosed(): // Locker.Close may not wait for an attempt that begins now
		return nil, false
	case e.Roster.List() != nil:
		return nil, true
	}
	select {
	case s := <-e.Roster.Survey():
		if e.Roster.List() != nil {
			return nil, true
		}
		for i := range e.Nodes {
			refusals = append(refusals, e.NodeError(i, "acquire", s.Refusal(i)))
		}
		return refusals, false
	case <-ctx.Done():
	case <-e.Lifetime.Done():
	}
	return nil, false
}

// unlisted is the outcome of an attempt that asked no node, because the list of masters is not known.
func (e *Engine) unlisted(ctx context.Context, refusals []error, approach waiting.Approach) *Outcome {
	o := &Outcome{Approach: approach, Quorum: e.Quorum, Closed: e.IsClosed(), Ended: ctx.Err() != nil, End: EndOf(ctx),
		Nodes: slices.Repeat([]NodeAnswer{{Is: lease.Unanswered}}, len(e.Nodes))}
	for i, refusal := range refusals {
		o.Verdict = lease.OutOfReach
		o.Nodes[i] = NodeAnswer{Is: lease.Failed, Err: refusal}
	}
	o.Kind = o.decide()
	return o
}

func newAttempt(h *Hold, probe int) *attempt {
	a := &attempt{hold: h, probe: probe, decided: make(chan struct{})}
	a.requests = few(a.room[:], len(h.members))
	for i := range a.requests {
		a.requests[i].request = request{hold: h, attempt: a}
	}
	h.attempt = a
	return a
}

// askAndWait asks the nodes, and waits until the outcome is certain, or the call or the Engine ends.
func (a *attempt) askAndWait(ctx context.Context, approach waiting.Approach) {
	e := a.hold.engine
	a.ask(approach)
	if approach.Probes() {
		late := e.Clock.AfterFunc(2*e.RTT.Step(e.Quorum), func() { a.hold.tell(a.hold.lease.AskOthers) })
		defer late.Stop()
	}
	select {
	case <-a.decided:
	case <-ctx.Done():
	case <-e.Lifetime.Done():
	}
}

// ask reads the clock before any request is sent.
func (a *attempt) ask(approach waiting.Approach) {
	h := a.hold
	e := h.engine
	h.mu.Lock()
	defer h.mu.Unlock()
	now := e.Clock.Now()
	args := scripts.AcquireArgs{Depth: 1, Lease: h.terms.Millis, Seed: tokenSeed()}
	if approach.Reserves() {
		args.Reservation = reservationMillis
	}
	a.call = h.grantCall(h.lease.Mode(), args)
	plan := lease.Plan{First: a.probe, Probe: approach.Probes()}
	if !plan.Probe || plan.First < 0 { // all processes begin at one node, so that fewer votes are split
		plan.First = e.FirstNode(h.names)
	}
	a.timed.Store(plan.Probe || e.RTT.Samples(now))
	for i := range h.members {
		err := h.pipe(i).Down()
		if err == nil {
			continue
		}
		h.members[i].err = err
		plan.Down |= quorate.Of(i)
		plan.Permanent = plan.Permanent || IsPermanent(err)
	}
	var room [8]lease.Command
	h.carryOutLocked(h.lease.Begin(now, plan, room[:0]), nil)
	a.asked = true
}

// FirstNode returns the node that attempts at the names ask first: the same for all processes, in
// whatever order the names are given. Each node gets its share of the names.
func (e *Engine) FirstNode(names []scripts.Name) int {
	least := names[0].String()
	for _, name := range names[1:] {
		least = min(least, name.String())
	}
	return int(scripts.Hash(least) % uint32(len(e.Nodes)))
}

// tokenSeed returns where a token counter that was lost starts again: above every token that this
// clock has seeded before.
func tokenSeed() uint64 {
	if micros := uint64(time.Now().UnixMicro()); micros < 1<<52 {
		return micros
	}
	return 0 // a clock that is centuries off, or before 1970, must not use up the counters
}

// noteReply records how long a node's reply took, and what a refusal says about the holder.
func (a *attempt) noteReply(node int, reply lease.Reply, said scripts.AcquireReply) {
	h := a.hold
	if a.timed.Load() && reply.Is != lease.Failed && reply.Is != lease.NotAccepted {
		h.engine.RTT.Observe(node, h.engine.Clock.Now().Sub(h.lease.BegunAt()))
	}
	if reply.Is == lease.Refused || reply.Is == lease.Quarantined { // a grant needs no mutex here
		h.mu.Lock()
		defer h.mu.Unlock()
		a.requests[node].answer = &NodeAnswer{Late: reply.Is, Wait: said.Wait, Holder: said.Holder, Listeners: said.Waiting,
			Readers: said.Readers}
	}
}

// commit makes the attempt a held lock and schedules its renewal, if the quorum is reached, the
// Engine is open and the deadline has not passed.
func (a *attempt) commit(ctx context.Context) bool {
	h := a.hold
	h.mu.Lock()
	isSettled, writeBacks := h.lease.IsSettled(), h.lease.WriteBacks()
	h.mu.Unlock()
	h.engine.WriteBacks.Add(uint64(writeBacks))
	if ctx.Err() != nil || !isSettled { // a refusal makes no context
		return false
	}
	h.first.makeContext(h.parent) // before any mutex is locked
	if h.engine.schedule.Add(&h.entry, h.holdUnlessLate) {
		h.engine.introduction.Keep(h.lease.BegunAt())
		return true
	}
	h.first.EndContext(ErrNotAcquired)
	return false
}

// holdUnlessLate makes the hold a lock, unless its deadline has passed. The clock is read last.
func (h *Hold) holdUnlessLate() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lease.Hold(h.engine.Clock.Now()) {
		return false
	}
	h.entry.At, h.entry.Early = h.lease.Next()
	h.attempt = nil // a lock may live for long
	return true
}

// outcomeLocked returns what the nodes have said so far: after GiveUp, what they had said by then, and what came late.
func (a *attempt) outcomeLocked(approach waiting.Approach) *Outcome {
	h := a.hold
	o := &Outcome{Approach: approach, Verdict: h.lease.Verdict(), Cause: h.lease.Cause(), Quorum: h.engine.Quorum, BegunAt: h.lease.BegunAt(),
		WriteBacks: h.lease.WriteBacks(), ByMaxHold: h.lease.EndedByMaxHold(), TakesOver: h.predecessor != nil,
		Nodes: make([]NodeAnswer, len(a.requests))}
	if approach.Reserves() {
		o.Reserved = h
	}
	for i := range a.requests {
		n := &o.Nodes[i]
		if answer := a.requests[i].answer; answer != nil {
			*n = *answer
		}
		n.Is, n.Err = h.lease.AnswerOf(i), h.members[i].err
		if n.Is != lease.Unanswered {
			n.Late = lease.Unasked
		}
	}
	return o
}

// undo ends a failed attempt: a release goes to every node that may have granted. undo waits for the nodes that
// granted, and at most Grace for nodes that have not replied, but not after ctx ends. A reply that arrives meanwhile
// may be a permanent error.
func (a *attempt) undo(ctx context.Context, approach waiting.Approach) *Outcome {
	ended, closed := ctx.Err() != nil, a.hold.engine.IsClosed()
	granted, open := a.startUndo()
	open.AwaitFor(ctx, Grace)
	select {
	case <-granted.Decided:
	case <-ctx.Done():
	}
	end := EndOf(ctx) // before the mutex is locked: ctx is the caller's code
	a.hold.mu.Lock()
	defer a.hold.mu.Unlock()
	o := a.outcomeLocked(approach)
	o.Ended, o.Closed, o.End = ended, closed, end
	o.Kind = o.decide()
	return o
}

// startUndo sends the releases. granted counts their replies from the nodes that had granted. open counts the other
// nodes' replies to the request, and to its release if they get one.
func (a *attempt) startUndo() (granted, open *Tally) {
	h := a.hold
	h.mu.Lock()
	defer h.mu.Unlock()
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
	granted = newTally(quorate.All(len(h.members)), mastersOf(toGranted))
	open = newTallyOfAll(h.lease.Answers()[lease.Unanswered].Len() + len(toOpen))
	for i := range a.requests {
		if h.lease.AnswerOf(i) == lease.Unanswered {
			a.requests[i].tally = open // nothing reads it before the reply is taken, under mu
		}
	}
	h.carryOutLocked(toGranted, granted)
	h.carryOutLocked(toOpen, open)
	h.carryOutLocked(toOthers, nil)
	return granted, open
}
