package engine

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/scripts"
)

// request is a command on its way to a node, and receives the reply ([pipeline.Receiver]). Renewals and releases have
// receivers of their own.
type request struct {
	hold    *Hold
	command lease.Command
	attempt *attempt // of Ask
	tally   *Tally   // of the call that waits for the reply, or nil
}

// call returns the call that carries the command, to any node.
func (r *request) call() scripts.Call {
	h, c := r.hold, r.command
	switch {
	case c.Do == lease.Raise:
		return scripts.Raise(h.names, h.ownerAs(h.lease.Mode()), h.lease.Token())
	case c.Do == lease.Extend:
		return scripts.Renew(h.list, scripts.ToMillis(c.Lease), []scripts.Renewal{h.renewal()})
	case c.Do == lease.Ask && c.Depth == 1 && c.Mode == h.terms.Mode:
		// A request with another depth or mode is sent again, after a re-entry or a downgrade.
		return r.attempt.call
	}
	return h.grantCall(c.Mode, scripts.AcquireArgs{Depth: c.Depth, Lease: scripts.ToMillis(c.Lease), Token: h.lease.Token()})
}

func (r *request) startLocked(call scripts.Call) error {
	if r.attempt != nil && r.attempt.asked {
		r.attempt.timed.Store(false) // this node is asked later than the others
	}
	return r.hold.pipe(r.command.Master).Start(call, &r.hold.members[r.command.Master].footprint, r)
}

// noteUnsentLocked tells the lease that the request could not be sent, and appends its commands.
func (r *request) noteUnsentLocked(err error, commands []lease.Command) []lease.Command {
	r.hold.members[r.command.Master].err = err
	r.finish(false, err)
	_, commands = r.hold.lease.TakeReply(clock.Never, r.command,
		lease.Reply{Is: lease.Unsent}, commands)
	return commands
}

// finish reports the end of the request to the caller who waits for it, or to the hook of repairs.
func (r *request) finish(counts bool, err error) {
	if r.command.Do == lease.Repair {
		r.hold.terms.Events.Repaired(r.hold, r.command.Master, err)
		return
	}
	r.tally.add(r.command.Master, nodeReply{counts: counts, err: err})
}

// Done receives the node's reply. It may come at any time: while other replies are awaited; after the
// quorum was reached, when a grant counts for the deadline only; or after the end of the attempt or
// the lock, when the release has been sent.
func (r *request) Done(result pipeline.Result) {
	reply, err := r.hold.replyOf(r.command, result, 0)
	r.takeReply(reply, err, result.Reply.Acquire)
}

func (r *request) takeReply(reply lease.Reply, err error, said scripts.AcquireReply) {
	if r.attempt != nil {
		r.attempt.noteReply(r.command.Master, reply, said)
	}
	e, submits, err := r.hold.takeReply(r.command, reply, err)
	if submits {
		r.submit(reply.Resent)
		return
	}
	r.finish(e.Counts, err)
}

// submit has the roster submit this locker's list to the node, and sends the request again if the
// node accepts it.
func (r *request) submit(resent bool) {
	engine, master := r.hold.engine, r.command.Master
	engine.Roster.Recheck(master, func(wait time.Duration, err error) {
		reply := lease.Reply{Is: lease.Failed, Resent: resent, NothingDone: !resent}
		said := scripts.AcquireReply{}
		switch {
		case wait > 0:
			reply = lease.Reply{Is: lease.Quarantined, Resent: resent}
			said.Wait = wait
		case err == nil:
			if r.sendAgain() {
				return
			}
			err = engine.NodeError(master, "acquire", ErrMarker)
		}
		r.takeReply(reply, err, said)
	})
}

// sendAgain sends the request again, to a node that accepts this locker now. It returns false if the
// lock has ended.
func (r *request) sendAgain() bool {
	h := r.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	again, goesOn := h.lease.Submitted(r.command)
	if !goesOn {
		return false
	}
	r.command = again
	if err := r.startLocked(r.call()); err != nil {
		h.carryOutLocked(r.noteUnsentLocked(err, nil), nil)
	}
	return true
}

// takeReply tells the lease of a node's reply, and carries out what follows. submits reports that this
// locker's list must be submitted to the node first: the request is not over then. Otherwise why is the
// node's error, or nil.
func (h *Hold) takeReply(c lease.Command, reply lease.Reply, err error) (e lease.Effect, submits bool, why error) {
	sooner := clock.Never
	defer func() { // with mu unlocked, because the schedule's mutex comes first
		if sooner != clock.Never {
			h.engine.schedule.Hasten(&h.entry, sooner)
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	before, _ := h.lease.Next()
	wasKept := h.lease.Kept()
	now := clock.Never
	if wasKept { // the replies to an attempt need no reading of the clock
		now = h.engine.Clock.Now()
	}
	var room [4]lease.Command
	e, commands := h.lease.TakeReply(now, c, reply, room[:0])
	if len(commands) > 0 && commands[0].Do == lease.Submit {
		return e, true, nil
	}
	why = h.replyError(c, reply, e, err, wasKept)
	h.members[c.Master].err = why
	h.carryOutLocked(commands, nil)
	if next, _ := h.lease.Next(); next.Before(before) {
		sooner = next
	}
	return e, false, why
}

var (
	// quorum.ErrNotAcquired and quorum.ErrQuarantined are these errors.
	ErrNotAcquired = errors.New("not acquired")
	ErrQuarantined = errors.New("nodes in quarantine")
	// ErrMarker: a node that was marked for this request has lost or changed its marker since.
	ErrMarker = errors.New("the node's marker changes under us")
)

var (
	// A node cannot tell these apart for a renewal.
	errForgotten = errors.New("the node had forgotten the lock: ForceUnlock or another client deleted it, " +
		"the node lost its data, or its clock jumped")
	errForced  = errors.New("ForceUnlock took the lock away")
	errTaken   = errors.New("the node had given the lock to another")
	errUnknown = errors.New("the node's answer is not known")
	errReader  = errors.New("the node refuses to renew a reader: its user needs a right to sorted sets (ZADD)")

	errNotRaised = errors.New("the grant that was read was gone before the token was written back")
	// errMovedOn: a neighbour has raised the counter, or a late copy of the request was granted
	// after another owner. A later attempt does not meet that again.
	errMovedOn = errors.New("the connection died during the attempt, and the token counter has moved on since the grant")
)

// What the lease calls the scripts' answers.
var (
	grantAnswers = map[scripts.Outcome]lease.Answer{scripts.Granted: lease.Granted, scripts.HeldByAnother: lease.Refused,
		scripts.Passed: lease.Refused, scripts.Barred: lease.Barred, scripts.Quarantined: lease.Quarantined}
	renewalAnswers = map[scripts.Renewed]lease.Answer{scripts.Kept: lease.Kept, scripts.Gone: lease.Gone, scripts.Taken: lease.Taken,
		scripts.NotRenewed: lease.NotRenewed, scripts.NotRaised: lease.NotRenewed}
)

// replyOf translates a node's reply to a command for the lease; for a renewal, the reply for its i-th lock. The error
// is a *node.Error; it is nil for a reply without one.
func (h *Hold) replyOf(c lease.Command, r pipeline.Result, i int) (lease.Reply, error) {
	reply := lease.Reply{Process: r.RunID, Resent: r.Resent}
	if r.Err != nil {
		reply.Is, reply.NothingDone = lease.Failed, !r.Sent || r.NothingDone
		return reply, r.Err
	}
	switch c.Do {
	case lease.Raise:
		reply.Is, reply.Token = lease.Granted, r.Reply.Raise
		reply.Late = h.members[c.Master].footprint.MayArriveLate()
		return reply, nil
	case lease.Renew, lease.Extend:
		said := r.Reply.Renew[i]
		is, known := renewalAnswers[said]
		switch reply.Is = is; {
		case !known:
			reply.Is = lease.Failed
			return reply, h.engine.NodeError(c.Master, "renew", errUnknown)
		case said == scripts.NotRenewed:
			return reply, h.engine.Roster.RenewalRefused(c.Master, r.Reply.NotAccepted)
		case said == scripts.NotRaised:
			return reply, h.engine.NodeError(c.Master, "renew", errReader)
		}
		return reply, nil
	}
	said := &r.Reply.Acquire
	if refusal := r.Reply.NotAccepted; refusal != nil {
		if err := h.engine.Roster.Refusal(c.Master, refusal); err != nil {
			reply.Is, reply.NothingDone = lease.Failed, !r.Resent
			return reply, err
		}
		reply.Is = lease.NotAccepted
		return reply, nil
	}
	is, known := grantAnswers[said.Outcome]
	switch reply.Is, reply.Token = is, said.Token; {
	case !known:
		reply.Is = lease.Failed
		return reply, h.engine.NodeError(c.Master, "acquire", errUnknown)
	case is == lease.Barred:
		return reply, nil
	case is == lease.Quarantined && r.RunID == "": // no node has said so: it is claimed, and accepts nobody
		return reply, nil
	}
	h.engine.Roster.NoteAccepted(c.Master, h.lease.BegunAt())
	return reply, nil
}

// ops has what errors call the commands that have replies.
var ops = [...]string{lease.Ask: "acquire", lease.Repair: "acquire", lease.Enter: "acquire", lease.Raise: "raise", lease.Renew: "renew",
	lease.Extend: "renew"}

// replyError returns the error of a node's reply to a command, a *node.Error, or nil. err is the one
// that came with it.
func (h *Hold) replyError(c lease.Command, r lease.Reply, e lease.Effect, err error, wasKept bool) error {
	switch {
	case err != nil:
		return err
	case e.Twin >= 0:
		return roster.OneProcess(h.engine.Nodes[c.Master], h.engine.Nodes[e.Twin])
	case e.Cause == lease.NotRaised:
		err = errNotRaised
	case e.Cause == lease.MovedOn:
		err = errMovedOn
	case r.Is == lease.NotAccepted:
		err = ErrMarker
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
	return h.engine.NodeError(c.Master, ops[c.Do], err)
}
