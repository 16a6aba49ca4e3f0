package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

type phase int

const (
	asking   phase = iota
	held           // by the last look at the clock; the deadline decides
	failed         // it was never held
	released       // by Unlock
	expired        // it was held and was lost
	closed         // the locker was closed over it
)

// hold is one owner's attempt at a lock and, if it succeeds, the lock that is held until it is released or lost. An owner is
// fresh for every attempt: a late rollback can then never delete a vote that another attempt has counted.
type hold struct {
	core  *core
	set   *settings
	owner scripts.Owner
	names []scripts.Name
	first Lock // the handle of level 1

	decided  chan struct{} // closed when the attempt is won or lost
	answered chan struct{} // of the nodes that knock asks first: holds one for each answer

	// mu orders what is sent for the owner: whatever could bring a key back is sent under it, and never after a release.
	mu      sync.Mutex
	phase   phase
	votes   []vote
	knocked *vote // of the node that knock asks before the others
	token   uint64
	won     bool // the rule was met
	level   int
	known   bool          // the caller has it
	inner   []*Lock       // handles of levels above 1
	until   clock.Instant // the deadline: no answer after it revives the hold
	limit   clock.Instant // of WithMaxHold; Never for none
	reason  error         // why it failed or was lost
	asked   clock.Instant // the clock before the requests for a grant were sent
	begun   clock.Instant // the clock before the last round, of those requests or of renewals, was sent

	// next and index belong to the schedule; renewalNext, under mu, tells next from a deadline.
	next        clock.Instant
	index       int
	renewalNext bool
}

// vote is one node's part in a hold.
type vote struct {
	hold *hold
	node int

	answer  answer
	wait    time.Duration // of a refusal: when the node may grant; −1 when it will not by itself
	waiting int           // with a refusal: how many listen to the channel
	err     error         // of answer failure
	token   uint64
	read    bool // it is one of the grants that were read when the rule was met
	runID   string

	until  clock.Instant  // d_i: how long the node keeps the grant, by our clock; raised only by a confirmed success
	asked  bool           // something was sent that may have been applied: it needs a release
	claim  pipeline.Claim // the same, for the node's pipeline
	busy   bool           // a renewal or repair has not been answered
	alone  bool           // a batch with it was refused: it is renewed alone until that succeeds
	forgot bool           // the node lost the grant, and no repair was tried yet
}

type answer int

const (
	unanswered answer = iota
	granted
	refused
	quarantined
	failure // unreachable, timed out, or an error: it may have been applied
)

func newHold(l *Locker, names []scripts.Name) *hold {
	c := l.core
	h := &hold{
		core: c, set: l.set, owner: c.newOwner(), names: names, level: 1,
		decided: make(chan struct{}), votes: make([]vote, len(c.nodes)),
		until: clock.Never, limit: clock.Never, index: -1,
	}
	for i := range h.votes {
		h.votes[i] = vote{hold: h, node: i, until: clock.Never}
	}
	return h
}

// lane is the key under which a hold's calls keep their order on a node.
func (h *hold) lane() string { return h.names[0].String() }

// refreshLocked computes the deadline from the votes. It must not be called once the deadline has passed: the handle is dead
// then, whatever is heard.
func (h *hold) refreshLocked() {
	all := make([]clock.Instant, 0, 8)
	for i := range h.votes {
		all = append(all, h.votes[i].until)
	}
	until := deadlineOf(all, h.core.need)
	if h.limit != clock.Never {
		until = min(until, h.limit)
	}
	h.until = until
}

// validLocked reads the clock.
func (h *hold) validLocked() bool {
	return h.phase == held && h.core.clock.Now().Before(h.until)
}

// confirmLocked takes a node's word that it keeps the grant until then. It may only raise what is believed, since a time to
// live never shrinks, and revives no hold whose deadline has passed. A grant from a process that has given another one under
// another address is none.
func (h *hold) confirmLocked(v *vote, runID string, until clock.Instant) error {
	for i := range h.votes {
		if other := &h.votes[i]; other != v && other.until != clock.Never && other.runID == runID {
			h.denyLocked(v)
			return h.core.blame(v.node, "acquire", fmt.Errorf("%w: it is one process with node %s", ErrInvalid, h.core.nodes[i].Name()))
		}
	}
	v.runID, v.err, v.forgot = runID, nil, false
	if v.until.Before(until) {
		v.until = until
	}
	if h.validLocked() {
		h.refreshLocked()
	}
	return nil
}

// denyLocked takes a node's word that it does not keep the grant.
func (h *hold) denyLocked(v *vote) {
	if v.until != clock.Never {
		v.until, v.forgot = clock.Never, true
	}
	if h.validLocked() {
		h.refreshLocked()
	}
}

// abandonLocked sees that nothing is granted any more, and sends the release. See releaseLocked.
func (h *hold) abandonLocked(to func(*vote) *round) {
	for i := range h.votes {
		h.votes[i].claim.Abandon()
	}
	h.releaseLocked(0, to)
}

// releaseLocked sends a release to every node where something of the owner's may be, also to those that have not answered.
// Each node's answer goes to the round that to names for it, nil for none.
func (h *hold) releaseLocked(level int, to func(*vote) *round) {
	call := scripts.Release(h.names, h.owner, level)
	all := make([]leaving, len(h.votes))
	for i := range h.votes {
		v, l := &h.votes[i], &all[i]
		*l = leaving{round: to(v), hold: h, node: i}
		if !v.asked {
			l.round.answer(i, reply{counts: true})
			continue
		}
		h.core.background.add()
		if err := h.core.nodes[i].Pipe(h.lane()).Start(call, &v.claim, l); err != nil {
			l.Done(pipeline.Result{Err: err})
		}
	}
}

// unheard is for releases whose answers nobody waits for.
func unheard(*vote) *round { return nil }

// leaving hears what became of one release. Where the owner was not found counts too: nothing of it is left there. A release
// that went out twice may have found what it does not find any more.
type leaving struct {
	round *round
	hold  *hold
	node  int
}

func (l *leaving) Done(r pipeline.Result) {
	defer l.hold.core.background.done()
	l.round.answer(l.node, reply{counts: r.Err == nil, found: r.Resent || r.Reply.Release == len(l.hold.names), err: r.Err})
}

// loseLocked ends a hold that can no longer be trusted, and its contexts, before anything else is done about it. The caller
// unlocks mu and then calls letGo and core.tell.
func (h *hold) loseLocked(why string) {
	h.reason = h.errorLocked("hold", ErrLost, why)
	h.phase = expired
	h.endContextsLocked(h.reason)
}

// letGo releases what is left of a hold that was lost.
func (h *hold) letGo() {
	h.core.schedule.remove(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandonLocked(unheard)
}

// tell lets those know of losses who want to, in a goroutine of its own: a log or a hook may be slow, and may come back to us.
func (c *core) tell(lost ...*hold) {
	if len(lost) == 0 {
		return
	}
	c.background.add()
	go func() {
		defer c.background.done()
		defer func() { c.tell(lost...) }() // the others, when a log or a hook ended the goroutine
		for len(lost) > 0 {
			h := lost[0]
			lost = lost[1:]
			h.tell()
		}
	}()
}

func (h *hold) tell() {
	h.mu.Lock()
	reason, known := h.reason, h.known
	h.mu.Unlock()
	if !known { // lost before anybody had it
		return
	}
	h.set.logger.Warn("quorumlock: lock lost", "names", h.first.names, "owner", h.owner.String(), "token", h.token, "error", reason)
	if lost := h.set.hooks.Lost; lost != nil {
		lost(&h.first, reason)
	}
}

// endContextsLocked may be called with mu: what waits for a context runs in goroutines of its own.
func (h *hold) endContextsLocked(cause error) {
	h.first.cancel(cause)
	for _, l := range h.inner {
		l.cancel(cause)
	}
	h.inner = nil
}

// errorLocked describes the votes as they stand.
func (h *hold) errorLocked(op string, cause error, why string) *Error {
	e := &Error{Op: op, Names: h.first.names, Need: h.core.need, causes: []error{cause}, kept: cause == ErrLost}
	if why != "" {
		e.causes = append(e.causes, wordsOnly(why))
	}
	now := h.core.clock.Now()
	for i := range h.votes {
		v := &h.votes[i]
		switch {
		case h.phase != asking && h.phase != failed && now.Before(v.until):
			e.Granted++
		case v.answer == granted && (h.phase == asking || h.phase == failed):
			e.Granted++
		case v.answer == refused:
			e.Refused++
		case v.answer == quarantined:
			e.Quarantined++
		default:
			e.Unknown++
		}
		if v.err != nil {
			e.Nodes = multierror.Append(e.Nodes, v.err)
		}
	}
	return e
}

// wordsOnly is an explanation that no caller tests for.
type wordsOnly string

func (w wordsOnly) Error() string { return string(w) }

// contextError is what the context's end adds to an error: both its error and, where there is one, the cause.
func contextError(ctx context.Context) []error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil {
		return nil
	}
	if cause == nil || cause == err {
		return []error{err}
	}
	return []error{err, cause}
}
