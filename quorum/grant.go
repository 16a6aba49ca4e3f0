package quorum

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// outcome is a node's answer to a request for a grant.
type outcome int

const (
	unasked outcome = iota
	unanswered
	granted
	refused     // another owner holds a name
	quarantined // the node may have forgotten grants
	unknown     // unreachable, timed out, or an error: the request may have been carried out
)

var (
	// A node cannot tell these apart for a renewal.
	errForgotten = errors.New("the node had forgotten the lock: ForceUnlock or another client deleted it, " +
		"or the node lost its data")
	errForced = errors.New("ForceUnlock took the lock away")
	errTaken  = errors.New("the node had given the lock to another")
	errMarker = errors.New("the node's marker changes under us")
)

// readGrant returns the outcome of an acquire: of an attempt, a repair or a re-entry. The error is
// a *node.Error; it is nil for all outcomes but unknown. The request was sent at sent or later.
func (c *core) readGrant(node int, r pipeline.Result, sent clock.Instant) (outcome, error) {
	if r.Err != nil {
		return unknown, r.Err
	}
	switch r.Reply.Acquire.Outcome {
	case scripts.Granted:
		c.roster.NoteAccepted(node, sent)
		return granted, nil
	case scripts.Quarantined:
		if r.RunID != "" { // else no node has said so: it is claimed, and lets nobody in
			c.roster.NoteAccepted(node, sent)
		}
		return quarantined, nil
	case scripts.Held:
		c.roster.NoteAccepted(node, sent)
		return refused, nil
	case scripts.Released:
		return refused, nil
	default: // NotLetIn, although the node has just let this locker in
		return unknown, c.nodeError(node, "acquire", errMarker)
	}
}

// acquireAgain returns the call with which a holder asks for its own lock again: a re-entry or a
// repair.
func (h *hold) acquireAgain(level int, lease scripts.Millis) scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: level, Lease: lease, List: h.list, Token: h.token,
	})
}

// regrantedLocked records a node's answer to acquireAgain, which asked for a grant until then.
func (v *vote) regrantedLocked(r pipeline.Result, until clock.Instant) outcome {
	h := v.hold
	v.relist = false
	said, err := h.core.readGrant(v.node, r, h.requestedAt)
	switch said {
	case granted:
		if err = h.confirmLocked(v, r.RunID, until); err != nil {
			said = unknown
		}
	case refused:
		h.denyLocked(v)
		v.forgot = true // the other owner's attempt may fail: a repair should go out soon
		why := errTaken
		if r.Reply.Acquire.Outcome == scripts.Released && h.isKeptLocked() { // it has released nothing itself
			why = errForced
		}
		err = h.core.nodeError(v.node, "acquire", why)
	case quarantined:
		h.denyLocked(v)
		v.forgot = false
		err = h.core.nodeError(v.node, "acquire", ErrQuarantined)
	}
	v.err = err
	return said
}

// renewedLocked records a node's answer for the i-th lock of a renewal.
func (v *vote) renewedLocked(r pipeline.Result, i int, until clock.Instant) {
	h := v.hold
	switch r.Reply.Renew[i] {
	case scripts.Kept:
		v.err = h.confirmLocked(v, r.RunID, until)
	case scripts.Gone:
		h.denyLocked(v)
		v.err = h.core.nodeError(v.node, "renew", errForgotten)
	case scripts.Taken:
		h.denyLocked(v)
		v.err = h.core.nodeError(v.node, "renew", errTaken)
	case scripts.NotRenewed: // the key is there, for as long as the last renewal said
		v.err = h.core.roster.RenewalRefused(v.node, r.Reply.NotLetIn)
	}
}

// refusedByList takes a request for a grant that a node refused because its marker does not let
// this locker in. A node that lets in another list is an error, which does not pass by itself: it
// becomes the result's. A blank node is marked, if this locker may, and asked again: refusedByList
// then returns true, and to gets that reply.
func (h *hold) refusedByList(v *vote, r *pipeline.Result, call scripts.Call, to pipeline.Receiver) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.relist { // the node's marker changes under us
		v.relist = false
		return false
	}
	if err := h.core.roster.Refusal(v.node, r.Reply.Acquire.Refusal); err != nil {
		r.Err, r.NothingDone = err, !r.Resent
		return false
	}
	v.relist = true
	if h.phase == attempting && !r.Resent {
		v.sent = false
	}
	resent := r.Resent
	h.core.roster.Recheck(v.node, func(wait time.Duration, err error) {
		result := pipeline.Result{Err: err, Sent: true, Resent: resent, NothingDone: !resent}
		switch {
		case wait > 0:
			result.Reply.Acquire = scripts.AcquireReply{Outcome: scripts.Quarantined, Wait: wait}
		case err == nil:
			result.Err = h.sendAgain(v, call, to)
			if result.Err == nil {
				return
			}
		}
		to.Done(result)
	})
	return true
}

// sendAgain sends a request for a grant again, to a node that lets this locker in now.
func (h *hold) sendAgain(v *vote, call scripts.Call, to pipeline.Receiver) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != attempting && !h.isKeptLocked() { // no request follows the release
		return h.core.nodeError(v.node, "acquire", errMarker)
	}
	err := h.pipe(v.node).Start(call, &v.claim, to)
	v.sent = v.sent || err == nil
	return err
}
