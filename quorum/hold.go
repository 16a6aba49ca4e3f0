package quorum

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// phase is where a hold is in its life. No phase comes back.
//
//	attempting ──▶ held ──▶ released   by Unlock
//	    │            ├────▶ expired    it can no longer be trusted
//	    ▼            └────▶ orphaned   the locker was closed over it
//	  failed
type phase int

const (
	attempting phase = iota
	held             // by the last look at the clock; the deadline decides
	failed           // it was never held
	released
	expired
	orphaned
)

// hold is one owner's lock, from the first request for a grant until it is released or lost. An owner is fresh for every attempt: a
// late rollback can then never delete a vote that another attempt has counted.
type hold struct {
	core  *core
	set   *settings
	owner scripts.Owner
	names []scripts.Name
	first Lock  // the handle of level 1
	entry entry // in the schedule, while it is held

	// mu orders what is sent for the owner: whatever could bring a key back is sent under it, and never after a release.
	mu          sync.Mutex
	phase       phase
	votes       []vote
	token       uint64
	level       int
	inner       []*Lock       // handles of levels above 1
	deadline    clock.Instant // no answer after it revives the hold
	maxHoldEnd  clock.Instant // of WithMaxHold; Never for none
	requestedAt clock.Instant // the clock before the requests for a grant were sent
	renewedAt   clock.Instant // the clock before the last renewals, or those requests, were sent
	lossReason  *Error        // why it was lost
}

// vote is one node's part in a hold.
type vote struct {
	hold *hold
	node int

	until  clock.Instant  // d_i: how long the node keeps the grant, by our clock; raised only by a confirmed success
	runID  string         // of the process that granted
	err    error          // of the node's last answer
	sent   bool           // something was sent that may have been applied: it needs a release
	claim  pipeline.Claim // the same, for the node's pipeline
	busy   bool           // a renewal or repair has not been answered
	alone  bool           // a batch with it was refused: it is renewed alone until that succeeds
	forgot bool           // the node lost the grant, and no repair was tried yet
}

// Lock is a handle on a lock that was acquired. It is safe for concurrent use. Entering the same lock again through its context
// makes another handle, of a higher level.
type Lock struct {
	hold     *hold
	names    []string
	one      [1]string // room for the usual number of names
	level    int       // 1 for the handle that releases the lock, more for those that entered again
	outer    *Lock
	scope    lockContext
	ctx      context.Context
	cancel   context.CancelCauseFunc
	unlocked atomic.Bool
}

// setNames takes a copy of names that are the caller's.
func (l *Lock) setNames(names []string) {
	l.names = append(l.one[:0], names...)
}

// begin makes the lock's context.
func (l *Lock) begin(parent context.Context) {
	l.scope = lockContext{parent, l}
	l.ctx, l.cancel = context.WithCancelCause(&l.scope)
}

// lockContext is a context that knows the lock whose context it becomes. It is part of the Lock: context.WithValue would
// allocate.
type lockContext struct {
	context.Context
	lock *Lock
}

type lockKey struct{}

func (c *lockContext) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// innermost returns the handle whose context this is, or is derived from.
func innermost(ctx context.Context) *Lock {
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

func newHold(c *core, set *settings, names []scripts.Name) *hold {
	h := &hold{
		core: c, set: set, owner: c.newOwner(), names: names, level: 1, votes: make([]vote, len(c.nodes)),
		deadline: clock.Never, maxHoldEnd: clock.Never,
	}
	h.entry = entry{owner: h, index: -1}
	for i := range h.votes {
		h.votes[i] = vote{hold: h, node: i, until: clock.Never}
	}
	return h
}

// pipe is the pipeline to a node that carries the hold's calls, in order.
func (h *hold) pipe(node int) *pipeline.Pipe { return h.core.nodes[node].Pipe(h.names[0].String()) }

// deadlineFor is until when a grant of the hold's lease may be relied on whose request was sent no earlier than sent.
func (h *hold) deadlineFor(sent clock.Instant) clock.Instant {
	return clock.Deadline(sent, h.set.lease, h.set.drift)
}

// refreshLocked computes the deadline from the votes. It must not be called once the deadline has passed: the handle is dead
// then, whatever is heard.
func (h *hold) refreshLocked() {
	all := make([]clock.Instant, 0, 8)
	for i := range h.votes {
		all = append(all, h.votes[i].until)
	}
	h.deadline = deadlineOf(all, h.core.need)
	if h.maxHoldEnd != clock.Never {
		h.deadline = min(h.deadline, h.maxHoldEnd)
	}
}

// validLocked reads the clock.
func (h *hold) validLocked() bool {
	return h.phase == held && h.core.clock.Now().Before(h.deadline)
}

// confirmLocked takes a node's word that it keeps the grant until then. It may only raise what is believed, since a time to
// live never shrinks, and revives no hold whose deadline has passed. A grant from a process that has given another one under
// another address is none.
func (h *hold) confirmLocked(v *vote, runID string, until clock.Instant) error {
	for i := range h.votes {
		if other := &h.votes[i]; other != v && other.until != clock.Never && other.runID == runID {
			h.denyLocked(v)
			return h.core.nodeError(v.node, "acquire", fmt.Errorf("%w: it is one process with node %s", ErrInvalid, h.core.nodes[i].Name()))
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

// errorLocked is the error of an operation on a lock that was acquired. It counts the nodes that still keep it.
func (h *hold) errorLocked(op string, causes ...error) *Error {
	e := &Error{Op: op, Names: h.first.names, Need: h.core.need, causes: causes, kept: true}
	now := h.core.clock.Now()
	for i := range h.votes {
		v := &h.votes[i]
		if now.Before(v.until) {
			e.Granted++
		} else {
			e.Unknown++
		}
		if v.err != nil {
			e.Nodes = multierror.Append(e.Nodes, v.err)
		}
	}
	return e
}
