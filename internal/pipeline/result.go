package pipeline

import (
	"errors"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

var (
	// ErrClosed: the pipe was closed.
	ErrClosed = errors.New("closed")
	// ErrDown: the server did not answer before, is being probed in the background, and was not asked again.
	ErrDown = errors.New("down")
	// ErrTimeout: the server did not answer in time. What it was asked may yet be carried out.
	ErrTimeout = redisconn.ErrTimeout
)

// Result is what became of a call.
type Result struct {
	Reply scripts.Reply // when Err is nil
	Err   error         // made by Config.Error
	RunID string        // of the process that replied
	Sent  bool          // the call reached the wire: with an error, it may have been carried out
	// Resent: the call went out on a connection that died, and again. It may have been carried out before.
	Resent bool
	// NothingDone: the server replied with an error which proves that it carried out nothing of a request for a grant, nor will.
	NothingDone bool
	// RefusesKeys: the server replied with an error that may be about the call's keys alone.
	RefusesKeys bool
}

// Receiver is told what became of a call.
type Receiver interface {
	// Done is called once for each call that Start accepted: about two timeouts after at the latest when the server does not
	// answer, and a few more when its connections die again and again. The pipe's goroutines call it, so it must not block.
	Done(Result)
}

// Claim is what a pipe must know of one owner's calls on one node. The zero value is ready for use.
type Claim struct {
	abandoned     atomic.Bool // nothing may be granted any more
	mayArriveLate atomic.Bool // a request for a grant was on a connection that died: it may be carried out however late
}

// Abandon tells that nothing may be granted to the owner any more: a request that would have to go out once more does not. It
// must be called before the owner's release is started, so that no request can come to stand behind that.
func (c *Claim) Abandon() { c.abandoned.Store(true) }

// request is one call on its way through a pipe.
type request struct {
	call     scripts.Call
	claim    *Claim   // nil for a call that can grant nothing
	to       Receiver // nil where nobody waits
	resends  int      // connections that died over it
	source   bool     // the server did not know the script by its hash
	order    uint64   // of a release that is owed: lower ones go first
	refusal  *refusal // of a release that the server has refused before
	admitted bool     // it found the marker stale once, and the marker has been written since
}

// isAbandoned tells a request for a grant that must not go out any more.
func (r request) isAbandoned() bool {
	return r.call.IsAcquire() && r.claim != nil && r.claim.abandoned.Load()
}

func (r request) finish(result Result) {
	if r.to != nil {
		r.to.Done(result)
	}
}
