package quorum

import (
	"errors"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// outcome is a node's answer to a request for a grant.
type outcome int

const (
	unanswered outcome = iota
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
// a *node.Error; it is nil for all outcomes but unknown.
func (c *core) readGrant(node int, r pipeline.Result) (outcome, error) {
	if r.Err != nil {
		return unknown, r.Err
	}
	switch r.Reply.Acquire.Outcome {
	case scripts.Granted:
		return granted, nil
	case scripts.Quarantined:
		return quarantined, nil
	case scripts.Held, scripts.Released:
		return refused, nil
	default: // Stale, although the pipe has just written the marker: another process overwrites it
		return unknown, c.nodeError(node, "acquire", errMarker)
	}
}

// acquireAgain returns the call with which a holder asks for its own lock again: a re-entry or a
// repair.
func (h *hold) acquireAgain(level int, lease scripts.Millis) scripts.Call {
	return scripts.Acquire(scripts.AcquireArgs{
		Names: h.names, Owner: h.owner, Level: level, Lease: lease, MaxLease: h.core.maxLeaseMillis, Token: h.token,
	})
}

// regrantedLocked records a node's answer to acquireAgain, which asked for a grant until then.
func (v *vote) regrantedLocked(r pipeline.Result, until clock.Instant) outcome {
	h := v.hold
	said, err := h.core.readGrant(v.node, r)
	switch said {
	case granted:
		if err = h.confirmLocked(v, r.RunID, until); err != nil {
			said = unknown
		}
	case refused:
		h.denyLocked(v)
		v.forgot = true // the other owner's attempt may fail: a repair should go out soon
		why := errTaken
		if r.Reply.Acquire.Outcome == scripts.Released && h.phase == held { // it has released nothing itself
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

// renewedLocked records a node's answer for one lock of a renewal.
func (v *vote) renewedLocked(said scripts.Renewed, runID string, until clock.Instant) {
	h := v.hold
	switch said {
	case scripts.Kept:
		v.err = h.confirmLocked(v, runID, until)
	case scripts.Gone:
		h.denyLocked(v)
		v.err = h.core.nodeError(v.node, "renew", errForgotten)
	case scripts.Taken:
		h.denyLocked(v)
		v.err = h.core.nodeError(v.node, "renew", errTaken)
	}
}
