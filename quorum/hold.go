package quorum

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// hold is the shell of one owner's lease: it feeds the lease with events, and carries out its
// commands. Every attempt has a fresh owner, so a late rollback never deletes a vote that another
// attempt has counted.
type hold struct {
	core  *core
	set   *settings
	owner scripts.Owner
	names []scripts.Name
	one   [1]scripts.Name       // room for the usual number of names
	list  *scripts.List         // of masters; nil while it is not known
	first Lock                  // the handle of level 1
	entry schedule.Entry[*hold] // in the schedule, while it is held

	// mu orders the owner's requests: the lease's commands are carried out with mu held.
	mu         sync.Mutex
	lease      lease.Lease
	members    []member
	inner      []*Lock  // handles of levels above 1
	lossReason *Error   // why the lock is lost
	postponed  bool     // its renewal is due at entry.At, and is not put off again
	attempt    *attempt // until a lock has asked its second wave; then nil, so that a lock keeps no attempt
}

// member is one node's part in a hold.
type member struct {
	hold  *hold
	node  int
	err   error          // of the node's last answer, or nil
	claim pipeline.Claim // what the node's pipe knows of the owner's requests
	alone bool           // the node refused a batch with it: it is renewed alone until a renewal succeeds
}

func newHold(c *core, set *settings, names []string) *hold {
	var h *hold
	var votes []lease.Vote
	if n := len(c.nodes); n == 3 { // the usual number: one allocation for all
		all := new(struct {
			hold
			votes   [3]lease.Vote
			members [3]member
		})
		h, votes = &all.hold, all.votes[:]
		h.members = all.members[:]
	} else {
		h, votes = &hold{members: make([]member, n)}, make([]lease.Vote, n)
	}
	h.core, h.set, h.owner, h.list = c, set, c.newOwner(), c.roster.List()
	h.lease.Init(&set.terms, votes)
	h.setNames(names)
	h.entry.Owner = h
	for i := range h.members {
		h.members[i] = member{hold: h, node: i}
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
func (h *hold) pipe(node int) *pipeline.Pipe {
	return inside.Of(h.core.nodes[node]).Pipe(h.names[0].String())
}

// validLocked reports whether the hold is held by the clock, which it reads.
func (h *hold) validLocked() bool { return h.lease.Valid(h.core.clock.Now()) }

// callers are who wait for the replies to commands; the zero value is nobody.
type callers struct {
	attempt *attempt     // to Ask and Raise
	tally   *tally       // to Enter, Extend and Release
	undo    *undo        // to the releases of an attempt, in place of tally
	release scripts.Call // to Release, and room for the receivers of its replies
	room    []releaseReply
	batches *renewalBatches // take renewals

	// Of a reply that is fed to the lease.
	said   scripts.AcquireReply // to a request for a grant
	resent bool
	to     receiver
}

// receiver takes the reply to a command, or what stands for it.
type receiver interface {
	take(reply lease.Reply, err error, said scripts.AcquireReply)
}

// carryOutLocked carries out commands, in order, and those that follow where one cannot be sent. It
// reports whether the lock was lost: then the caller unlocks mu and calls core.finishLost.
func (h *hold) carryOutLocked(commands []lease.Command, to callers) (lost bool) {
	for i := 0; i < len(commands); i++ {
		c := commands[i]
		var err error
		switch c.Do {
		case lease.Ask:
			err = to.attempt.send(c)
		case lease.Raise:
			call := scripts.Raise(h.names, h.owner, h.lease.Token())
			err = h.pipe(c.Master).Start(call, nil, &request{hold: h, command: c, attempt: to.attempt})
		case lease.Repair, lease.Enter, lease.Extend:
			r := &request{hold: h, command: c, tally: to.tally}
			if err = h.pipe(c.Master).Start(r.call(), r.claim(), r); err != nil {
				r.tally.add(c.Master, nodeReply{err: err})
			}
		case lease.Renew:
			to.batches.add(h, c)
		case lease.Release:
			h.sendRelease(c, &to)
		case lease.Submit:
			h.submit(c, to)
		case lease.Decided:
			close(to.attempt.decided)
		case lease.Cleared:
			to.attempt.noteCleared()
		case lease.End:
			return h.endThenLocked(c.Cause, commands[i+1:], to)
		}
		if err != nil {
			h.members[c.Master].err = err
			_, commands = h.lease.Answered(clock.Never, c,
				lease.Reply{Is: lease.Unsent, Permanent: isPermanent(err)}, commands)
		}
	}
	if h.lease.Kept() && !h.lease.HasSecondWave() {
		h.attempt = nil
	}
	return false
}

// endThenLocked ends the contexts, and then carries out the rest, even if a context of the caller's
// panics.
func (h *hold) endThenLocked(why lease.Cause, rest []lease.Command, to callers) (lost bool) {
	lost = h.lease.Phase() == lease.Expired
	defer h.carryOutLocked(rest, to)
	h.endLocked(why)
	return lost
}

// request is a command of its own on its way to a node, and the receiver of the reply
// ([pipeline.Receiver]).
type request struct {
	hold    *hold
	command lease.Command
	tally   *tally   // of the call that waits for the reply, or nil
	attempt *attempt // of Raise
}

func (r *request) claim() *pipeline.Claim {
	if r.command.Do == lease.Extend {
		return nil // it grants nothing
	}
	return &r.hold.members[r.command.Master].claim
}

func (r *request) call() scripts.Call {
	h, c := r.hold, r.command
	if c.Do == lease.Extend {
		return scripts.Renew(h.list, []scripts.Renewal{h.renewal(scripts.ToMillis(c.Lease))})
	}
	return h.acquireAgain(c)
}

// acquireAgain returns the call with which a holder asks for its own lock again.
func (h *hold) acquireAgain(c lease.Command) scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: c.Level, Lease: scripts.ToMillis(c.Lease), List: h.list, Token: h.lease.Token(),
	})
}

// renewal returns the lock as one of those that a call renews.
func (h *hold) renewal(lasts scripts.Millis) scripts.Renewal {
	return scripts.Renewal{Names: h.names, Owner: h.owner, Token: h.lease.Token(), Lease: lasts}
}

// Done receives the node's reply. It may come at any time, also after the lock has ended.
func (r *request) Done(result pipeline.Result) {
	reply, err := r.hold.read(r.command, result, 0)
	r.take(reply, err, scripts.AcquireReply{})
}

func (r *request) take(reply lease.Reply, err error, _ scripts.AcquireReply) {
	h, c := r.hold, r.command
	o, pending, err := h.answer(c, reply, err, callers{attempt: r.attempt, tally: r.tally, resent: reply.Resent, to: r})
	switch {
	case pending:
	case c.Do == lease.Repair:
		h.noteRepair(c.Master, err)
	default:
		r.tally.add(c.Master, nodeReply{counts: o.Counts, err: err})
	}
}

// answer feeds the lease with a node's reply. pending reports that the request goes out again, or has
// gone.
func (h *hold) answer(c lease.Command, reply lease.Reply, err error, to callers) (
	o lease.Outcome, pending bool, why error,
) {
	o, pending, f, why := h.feed(c, reply, err, to)
	h.follow(f)
	return o, pending, why
}

// followUp is what is left to do, once mu is unlocked, after the lease was fed.
type followUp struct {
	lost     bool
	hastenTo clock.Instant // when the schedule must handle the hold at the latest; Never where that has not changed
}

func (h *hold) follow(f followUp) {
	if f.lost {
		h.core.finishLost(h)
	} else if f.hastenTo != clock.Never {
		h.core.schedule.Hasten(&h.entry, f.hastenTo)
	}
}

// feed is answer under the mutex.
func (h *hold) feed(c lease.Command, reply lease.Reply, err error, to callers) (
	o lease.Outcome, pending bool, f followUp, why error,
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Do == lease.Ask {
		to.attempt.noteLocked(c.Master, reply, to.said)
	}
	var room [4]lease.Command
	f.hastenTo = clock.Never
	before, _ := h.lease.Next()
	wasKept := h.lease.Kept()
	now := clock.Never
	if wasKept { // the answers to an attempt need no reading of the clock
		now = h.core.clock.Now()
	}
	o, commands := h.lease.Answered(now, c, reply, room[:0])
	if pending = len(commands) > 0 && commands[0].Do == lease.Submit; !pending {
		why = h.errorFor(c, reply, o, err, wasKept)
		h.members[c.Master].err = why
	}
	f.lost = h.carryOutLocked(commands, to)
	if next, _ := h.lease.Next(); next.Before(before) && h.lease.Kept() {
		f.hastenTo = next
	}
	return o, pending, f, why
}

// submit has the roster submit this locker's list to a node, and sends the request again if the node
// accepts it.
func (h *hold) submit(c lease.Command, to callers) {
	resent, receiver, again := to.resent, to.to, callers{attempt: to.attempt, tally: to.tally}
	h.core.roster.Recheck(c.Master, func(wait time.Duration, err error) {
		reply := lease.Reply{Is: lease.Failed, Resent: resent, NothingDone: !resent, Permanent: isPermanent(err)}
		said := scripts.AcquireReply{}
		switch {
		case wait > 0:
			reply = lease.Reply{Is: lease.Quarantined, Resent: resent}
			said.Outcome, said.Wait = scripts.Quarantined, wait
		case err == nil:
			if h.sendAgain(c, again) {
				return
			}
			err = h.core.nodeError(c.Master, "acquire", errMarker)
		}
		receiver.take(reply, err, said)
	})
}

// sendAgain sends a request again, to a node that accepts this locker now. It returns false where the
// lock has ended.
func (h *hold) sendAgain(c lease.Command, to callers) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var room [1]lease.Command
	sent, commands := h.lease.Submitted(c, room[:0])
	h.carryOutLocked(commands, to)
	return sent
}

var (
	// A node cannot tell these apart for a renewal.
	errForgotten = errors.New("the node had forgotten the lock: ForceUnlock or another client deleted it, " +
		"or the node lost its data")
	errForced = errors.New("ForceUnlock took the lock away")
	errTaken  = errors.New("the node had given the lock to another")
	errMarker = errors.New("the node's marker changes under us")

	errNotRaised = errors.New("the grant that was read was gone before the token was written back")
	// errMovedOn: a neighbour has raised the counter, or a late copy of the request was granted
	// after another owner. A later attempt does not meet that again.
	errMovedOn = errors.New("the connection died during the attempt, and the token counter has moved on since the grant")
)

// read returns what matters of a node's reply to a command: for the i-th lock of a renewal. The error
// is a *node.Error; it is nil for a reply without one.
func (h *hold) read(c lease.Command, r pipeline.Result, i int) (lease.Reply, error) {
	reply := lease.Reply{Process: r.RunID, Resent: r.Resent}
	if r.Err != nil {
		reply.Is, reply.NothingDone, reply.Permanent = lease.Failed, !r.Sent || r.NothingDone, isPermanent(r.Err)
		return reply, r.Err
	}
	switch c.Do {
	case lease.Raise:
		reply.Is, reply.Token = lease.Granted, r.Reply.Raise
		reply.Late = h.members[c.Master].claim.MayArriveLate()
		return reply, nil
	case lease.Renew, lease.Extend:
		switch r.Reply.Renew[i] {
		case scripts.Kept:
			reply.Is = lease.Kept
		case scripts.Gone:
			reply.Is = lease.Gone
		case scripts.Taken:
			reply.Is = lease.Taken
		case scripts.NotRenewed:
			reply.Is = lease.NotRenewed
			return reply, h.core.roster.RenewalRefused(c.Master, r.Reply.NotLetIn)
		}
		return reply, nil
	}
	said := &r.Reply.Acquire
	if said.Refusal != nil {
		if err := h.core.roster.Refusal(c.Master, said.Refusal); err != nil {
			reply.Is, reply.NothingDone, reply.Permanent = lease.Failed, !r.Resent, isPermanent(err)
			return reply, err
		}
		reply.Is = lease.NotAccepted
		return reply, nil
	}
	switch said.Outcome {
	case scripts.Granted:
		reply.Is, reply.Token = lease.Granted, said.Token
	case scripts.Held:
		reply.Is = lease.Refused
	case scripts.Released:
		reply.Is = lease.Barred
		return reply, nil
	case scripts.Quarantined:
		reply.Is = lease.Quarantined
		if r.RunID == "" { // no node has said so: it is claimed, and lets nobody in
			return reply, nil
		}
	default:
		err := h.core.nodeError(c.Master, "acquire", errors.New("the node's answer is not known"))
		reply.Is = lease.Failed
		return reply, err
	}
	h.core.roster.NoteAccepted(c.Master, h.lease.BegunAt())
	return reply, nil
}

// errorFor returns the error of a node's answer, nil for none: a *node.Error. err is that of the
// reply.
func (h *hold) errorFor(c lease.Command, r lease.Reply, o lease.Outcome, err error, wasKept bool) error {
	op := "acquire"
	switch c.Do {
	case lease.Renew, lease.Extend:
		op = "renew"
	case lease.Raise:
		op = "raise"
	}
	switch {
	case err != nil:
		return err
	case o.Twin >= 0:
		return h.core.oneProcess(c.Master, o.Twin)
	case o.Cause == lease.NotRaised:
		err = errNotRaised
	case o.Cause == lease.MovedOn:
		err = errMovedOn
	case c.Do == lease.Raise:
		return nil
	case r.Is == lease.NotAccepted:
		err = errMarker
	case c.Do == lease.Ask:
		return nil
	case r.Is == lease.Gone:
		err = errForgotten
	case r.Is == lease.Barred && wasKept: // it has released nothing itself
		err = errForced
	case r.Is == lease.Taken, r.Is == lease.Refused, r.Is == lease.Barred:
		err = errTaken
	case r.Is == lease.Quarantined:
		err = ErrQuarantined
	}
	return h.core.nodeError(c.Master, op, err)
}

// isPermanent reports whether a node's error does not pass by itself.
func isPermanent(err error) bool {
	var failed *node.Error
	return errors.As(err, &failed) && failed.Permanent()
}

// endLocked ends the contexts of all handles. It may run with mu held: a function that a context's
// end starts runs in a goroutine of its own.
func (h *hold) endLocked(why lease.Cause) {
	var cause error
	switch why {
	case lease.Unlocked:
		cause = ErrReleased
	case lease.Closed:
		cause = ErrClosed
	default:
		h.lossReason = h.errorLocked("hold", ErrLost, h.whyLost(why))
		h.core.counters.lost.Add(1)
		cause = h.lossReason
	}
	inner := h.inner
	h.inner = nil
	h.first.cancel(cause)
	for _, l := range inner {
		l.cancel(cause)
	}
}

// whyLost explains why a lock was lost.
func (h *hold) whyLost(why lease.Cause) detail {
	switch why {
	case lease.MaxHoldOver:
		return detail(fmt.Sprintf("its max hold of %v is over", h.set.maxHold))
	case lease.NotKept:
		return "too few nodes keep it"
	case lease.LeaseOver:
		return "its lease is over"
	case lease.NotConfirmed:
		return "too few nodes confirmed a renewal in time"
	default:
		return "the deadline has passed"
	}
}

// errorLocked returns the error of an operation on a lock that was acquired. It counts the nodes
// that still keep it.
func (h *hold) errorLocked(op string, causes ...error) *Error {
	e := &Error{Op: op, Names: h.first.names, Need: h.core.need, causes: causes, kept: true}
	now := h.core.clock.Now()
	for i := range h.members {
		if now.Before(h.lease.Until(i)) {
			e.Granted++
		} else {
			e.Unknown++
		}
		if err := h.members[i].err; err != nil {
			e.Nodes = multierror.Append(e.Nodes, err)
		}
	}
	return e
}
