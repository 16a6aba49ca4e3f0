package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// attempt is one request for a grant to the nodes, until it has become a held lock or is undone.
type attempt struct {
	hold    *hold
	answers []answer
	few     [5]answer     // room for the answers of as many nodes as there usually are
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

func newAttempt(c *core, set *settings, names []string, outer *Lock) *attempt {
	h := newHold(c, set, scriptNames(names))
	h.first = Lock{hold: h, level: 1, outer: outer}
	h.first.setNames(names)
	a := &attempt{hold: h, decided: make(chan struct{})}
	a.answers = a.few[:0]
	for i := range h.votes {
		a.answers = append(a.answers, answer{attempt: a, vote: &h.votes[i]})
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
