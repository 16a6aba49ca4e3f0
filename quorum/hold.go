package quorum

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// phase is a hold's place in its life. No phase comes back.
//
//	attempting ──▶ held ──▶ released   by Unlock, perhaps lingering before (WithMinHold)
//	    │            ├────▶ expired    the lock is lost: it can no longer be trusted
//	    ▼            └────▶ orphaned   the Locker was closed while the lock was held
//	  failed
type phase int

const (
	attempting phase = iota
	held             // when the clock was last read; whether it still is, the deadline decides
	lingering        // unlocked, and kept on the nodes until the end of its min hold
	failed           // undone
	released
	expired
	orphaned
)

// hold is one owner's lock, from the first request for a grant until it is released or lost. Every
// attempt has a fresh owner, so a late rollback never deletes a vote that another attempt has
// counted.
type hold struct {
	core  *core
	set   *settings
	owner scripts.Owner
	names []scripts.Name
	one   [1]scripts.Name       // room for the usual number of names
	list  *scripts.List         // of masters; nil while it is not known
	first Lock                  // the handle of level 1
	entry schedule.Entry[*hold] // in the schedule, while it is held

	// mu orders the owner's requests: a request that could bring a key back is sent with mu held,
	// and never after a release.
	mu          sync.Mutex
	phase       phase
	votes       []vote
	token       uint64
	level       int
	inner       []*Lock       // handles of levels above 1
	deadline    clock.Instant // once it has passed, no answer revives the hold
	postponed   bool          // its renewal is due at entry.At, and is not put off again
	maxHoldEnd  clock.Instant // by WithMaxHold; Never for none
	requestedAt clock.Instant // read before the requests for a grant were sent
	renewedAt   clock.Instant // read before the last renewals, or else those requests, were sent
	lossReason  *Error        // why it is expired
	secondWave  *attempt      // that is yet to ask its second wave; else nil, so that a lock keeps no attempt
}

// vote is one node's part in a hold.
type vote struct {
	hold *hold
	node int

	until  clock.Instant  // d_i of design.md §4.3: how long the node keeps the grant, by the local clock
	runID  string         // of the process that confirmed the grant last
	err    error          // of the node's last answer, or nil
	sent   bool           // a request was sent that may have been carried out, or may yet be: the node needs a release
	claim  pipeline.Claim // what the node's pipe knows of the owner's requests
	busy   bool           // a renewal or repair awaits its answer
	alone  bool           // the node refused a batch with it: it is renewed alone until a renewal succeeds
	relist bool           // the node is asked again, because its marker did not let this locker in
	forgot bool           // the node does not keep the grant, and a repair should go out soon
}

// Lock is a handle on a lock that was acquired. It is safe for concurrent use. Entering the lock
// again through its context makes another handle, of a higher level.
type Lock struct {
	hold     *hold
	names    []string
	one      [1]string // room for the usual number of names
	level    int       // 1 for the handle that acquired the lock, more for a re-entry
	outer    *Lock     // the innermost handle in the context given to Lock
	scope    lockContext
	ctx      context.Context
	cancel   context.CancelCauseFunc
	unlocked atomic.Bool
}

// setNames copies the names, which are the caller's.
func (l *Lock) setNames(names []string) {
	l.names = append(l.one[:0], names...)
}

// begin makes the lock's context, from the context given to Lock.
func (l *Lock) begin(parent context.Context) {
	if waiting, ok := parent.(*waitContext); ok {
		parent = waiting.given
	}
	l.scope = lockContext{parent, l}
	l.ctx, l.cancel = context.WithCancelCause(&l.scope)
}

// lockContext is the parent of a lock's context: the context given to Lock, and the lock as a
// value. It is part of the Lock, because context.WithValue would allocate.
type lockContext struct {
	context.Context
	lock *Lock
}

// waitContext bounds the waiting of a call of Lock by WithWait. It is not the parent of the lock's
// context: the bound does not end the work.
type waitContext struct {
	context.Context
	given context.Context // to Lock
}

type lockKey = testlock.Key

func (c *lockContext) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// innermost returns the handle whose context ctx is, or is derived from; nil for none.
func innermost(ctx context.Context) *Lock {
	switch l := ctx.Value(lockKey{}).(type) {
	case *Lock:
		return l
	case *testlock.Lock:
		return l.Handle(func() any { return newTestLock(l) }).(*Lock)
	}
	return nil
}

// newTestLock returns the handle of a lock that no node has granted: it is over no nodes, so that
// none must confirm anything.
func newTestLock(t *testlock.Lock) *Lock {
	set := defaults()
	c := &core{clock: set.clock, maxLease: node.DefaultMaxLease, schedule: &schedule.Schedule[*hold]{}, closed: make(chan struct{})}
	h := &hold{
		core: c, set: &set, owner: scripts.NewOwner("test", 1), level: 1, phase: held,
		token: t.Token, deadline: c.clock.Now().Add(maxMaxHold), maxHoldEnd: clock.Never,
	}
	h.setNames(t.Names)
	h.entry.Owner = h
	h.first = Lock{hold: h, names: t.Names, level: 1, outer: innermost(t.Parent), ctx: t.Context, cancel: t.End}
	h.first.scope = lockContext{t.Parent, &h.first}
	return &h.first
}

func newHold(c *core, set *settings, names []string) *hold {
	var h *hold
	if n := len(c.nodes); n == 3 { // the usual number: one allocation for both
		both := new(struct {
			hold
			votes [3]vote
		})
		h = &both.hold
		h.votes = both.votes[:]
	} else {
		h = &hold{votes: make([]vote, n)}
	}
	h.core, h.set, h.owner, h.list, h.level = c, set, c.newOwner(), c.roster.List(), 1
	h.deadline, h.maxHoldEnd = clock.Never, clock.Never
	h.setNames(names)
	h.entry.Owner = h
	for i := range h.votes {
		h.votes[i] = vote{hold: h, node: i, until: clock.Never}
	}
	return h
}

func (h *hold) setNames(names []string) {
	h.names = h.one[:0]
	for _, name := range names {
		h.names = append(h.names, scripts.NewName(name))
	}
}

// pipe returns the pipeline to a node that carries all the hold's calls, in order.
func (h *hold) pipe(node int) *pipeline.Pipe { return h.core.nodes[node].Pipe(h.names[0].String()) }

// deadlineFor returns the instant until which a grant may be relied on, if its request was sent at
// sent or later.
func (h *hold) deadlineFor(sent clock.Instant) clock.Instant {
	return clock.Deadline(sent, h.set.lease, h.set.drift)
}

// refreshLocked computes the deadline from the votes. It must not be called once the deadline has
// passed: no answer revives the handle then.
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

// validLocked reports whether the hold is held by the clock, which it reads.
func (h *hold) validLocked() bool {
	return h.phase == held && h.core.clock.Now().Before(h.deadline)
}

// isKeptLocked reports whether the nodes are to keep the lock: it is renewed and repaired.
func (h *hold) isKeptLocked() bool { return h.phase == held || h.phase == lingering }

// refreshUnlessLateLocked computes the deadline from the votes, unless it has passed.
func (h *hold) refreshUnlessLateLocked() {
	if h.isKeptLocked() && h.core.clock.Now().Before(h.deadline) {
		h.refreshLocked()
	}
}

// minHoldEnd returns the instant before which Unlock leaves the lock on the nodes. Like the end of
// the max hold, it counts from before the requests for a grant were sent: the lease on the nodes
// began later.
func (h *hold) minHoldEnd() clock.Instant { return h.requestedAt.Add(h.set.minHold) }

// confirmLocked records that a node keeps the grant until then. It only raises vote.until, since a
// time to live never shrinks, and revives no hold whose deadline has passed. The error says that
// the process has already granted under another address: one process is one vote.
func (h *hold) confirmLocked(v *vote, runID string, until clock.Instant) error {
	for i := range h.votes {
		if other := &h.votes[i]; other != v && other.until != clock.Never && other.runID == runID {
			h.denyLocked(v)
			return h.core.oneProcess(v.node, i)
		}
	}
	v.runID, v.err, v.forgot, v.relist = runID, nil, false, false
	if v.until.Before(until) {
		v.until = until
	}
	h.refreshUnlessLateLocked()
	return nil
}

// denyLocked records that a node does not keep the grant.
func (h *hold) denyLocked(v *vote) {
	if v.until != clock.Never {
		v.until, v.forgot = clock.Never, true
	}
	h.refreshUnlessLateLocked()
}

// errorLocked returns the error of an operation on a lock that was acquired. It counts the nodes
// that still keep it.
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
