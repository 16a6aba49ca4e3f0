package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// attempt is one request for the lock to the nodes, until it has become a held lock or is undone.
type attempt struct {
	hold    *hold
	call    scripts.Call // the request for a grant
	room    [13]any      // for the arguments of call, with one name: as many as scripts.Acquire makes
	answers []answer
	few     [5]answer     // room for the usual number of nodes
	decided chan struct{} // closed when the outcome is certain, or no more nodes are asked

	// Set before the first node is asked.
	waveSize  int                      // how many nodes the first wave has
	firstNode int                      // the node that is asked first
	probing   bool                     // the first wave is the probe node, whose refusal ends the attempt
	entry     schedule.Entry[*attempt] // in core.secondWaves

	// Under hold.mu.
	timed   bool // the times of its answers count for the rtt
	verdict verdict
	cause   error         // why the attempt failed although the quorum was reached
	clear   chan struct{} // while it is waited for: closed once the answers tell whether the error is permanent

	writeBacks int  // how many nodes the token is written back to
	waited     bool // for grace, for nodes that have not answered
}

// answer is one node's answer to an attempt, and the pipeline's receiver of it. The hold's mutex
// guards it.
type answer struct {
	attempt   *attempt
	vote      *vote
	outcome   outcome
	wait      time.Duration // of a refusal or quarantine: until the node can grant; −1 for a key that never expires
	holder    string        // of a refusal: the owner that is there
	listeners int           // of a refusal: connections that subscribe to the channel
	token     uint64        // of a grant
	counted   bool          // the grant was read when the quorum was reached: its counter decides on the token
}

func newAttempt(c *core, set *settings, names []string, outer *Lock) *attempt {
	h := newHold(c, set, names)
	h.first = Lock{hold: h, level: 1, outer: outer}
	h.first.setNames(names)
	a := &attempt{hold: h, decided: make(chan struct{})}
	a.answers = a.few[:0]
	for i := range h.votes {
		a.answers = append(a.answers, answer{attempt: a, vote: &h.votes[i]})
	}
	return a
}

// acquire returns the call with which an attempt asks for a grant.
func (a *attempt) acquire() scripts.Call {
	h := a.hold
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: 1, Lease: h.set.leaseMillis, List: h.list, Seed: tokenSeed(),
		Room: a.room[:0],
	})
}

// startLocked reads the clock before any request is sent. It returns false when so many nodes are
// known to be down that asking the others would be in vain.
func (a *attempt) startLocked() bool {
	h := a.hold
	h.requestedAt = h.core.clock.Now()
	h.renewedAt = h.requestedAt
	a.call = a.acquire()
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

func (a *attempt) askLocked(i int) {
	v := &a.hold.votes[i]
	if err := a.hold.pipe(i).Start(a.call, &v.claim, &a.answers[i]); err != nil {
		a.answers[i].outcome, v.err = unknown, err
		return
	}
	v.sent, a.answers[i].outcome = true, unanswered
}

// Done receives a node's answer ([pipeline.Receiver]). It may come while other answers are awaited;
// after the quorum was reached, when it counts for the deadline only; or after the attempt's end,
// when its release has been sent.
func (n *answer) Done(r pipeline.Result) {
	a, v := n.attempt, n.vote
	h := a.hold
	if r.Reply.Acquire.Refusal != nil && h.refusedByList(v, &r, a.call, n) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.timed && r.Err == nil {
		h.core.rtt.Observe(v.node, h.core.clock.Now().Sub(h.requestedAt))
	}
	n.outcome, v.err = h.core.readGrant(v.node, r, h.requestedAt)
	switch reply := r.Reply.Acquire; n.outcome {
	case granted:
		n.token = reply.Token
		if err := h.confirmLocked(v, r.RunID, h.deadlineFor(h.requestedAt)); err != nil {
			n.outcome, v.err = unknown, err
		}
	case refused, quarantined:
		n.wait, n.holder, n.listeners = reply.Wait, reply.Holder, reply.Waiting
	}
	if h.phase == attempting {
		if n.provesNothingThere(r) {
			v.sent = false
		}
		a.decideLocked()
		a.noteClearLocked()
	}
}

// provesNothingThere reports whether nothing of the owner's can be on the node, now or later.
func (n *answer) provesNothingThere(r pipeline.Result) bool {
	if r.Err != nil {
		return !r.Sent || r.NothingDone
	}
	return (n.outcome == refused || n.outcome == quarantined) && !r.Resent
}

// outcomeCounts is how many nodes gave each outcome.
type outcomeCounts [unknown + 1]int

func (a *attempt) count() (of outcomeCounts) {
	for i := range a.answers {
		of[a.answers[i].outcome]++
	}
	return of
}

// decideLocked judges the answers so far, and asks further nodes where they call for it. It closes
// decided when the quorum is reached, or cannot be reached any more.
func (a *attempt) decideLocked() {
	for !a.isDecided() {
		of := a.count()
		denied := of[refused] + of[quarantined] + of[unknown]
		a.verdict = judge(len(a.answers), a.hold.core.need, of[granted], denied)
		if a.verdict == pending {
			if !a.askMoreLocked(of) {
				return
			}
			continue
		}
		for i := range a.answers {
			a.answers[i].counted = a.verdict == won && a.answers[i].outcome == granted
		}
		close(a.decided)
	}
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
