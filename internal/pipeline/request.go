package pipeline

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

var (
	// ErrClosed: the pipe was closed.
	ErrClosed = errors.New("closed")
	// ErrDown: the server did not answer before, is probed in the background, and was not asked
	// again.
	ErrDown = errors.New("down")
	// ErrTimeout: the server did not answer in time. It may still carry out the call.
	ErrTimeout = redisconn.ErrTimeout
)

// Result is the outcome of a call.
type Result struct {
	Reply scripts.Reply // when Err is nil
	Err   error         // made by Config.Error
	RunID string        // of the process that replied
	Sent  bool          // the call reached the wire: with an error, it may have been carried out
	// Resent: the call was on a connection that died, and was sent again. The first copy may have
	// been carried out.
	Resent bool
	// NothingDone: an error reply proves that the server carried out nothing of a request for a
	// grant, and will not.
	NothingDone bool
	// RefusesKeys: the server replied with an error that may concern the call's keys alone.
	RefusesKeys bool
}

// Quarantine is one reading of a node's quarantine. A goroutine that the machine holds up may hand it
// on long after it was made, so it says when that was: after Asked and before Came.
type Quarantine struct {
	Left     time.Duration
	Unmarked bool      // it has not begun, and the node grants nothing
	Asked    time.Time // before the request was sent
	Came     time.Time // after the reply was read
}

// Receiver takes the outcome of a call.
type Receiver interface {
	// Done is called once for each call that Start accepted. A server that does not answer delays
	// it by about three timeouts, connections that die repeatedly by a few more. The pipe's
	// goroutines call it, so it must not block.
	Done(Result)
}

// ReceiverFunc is a function that takes the outcome of a call.
type ReceiverFunc func(Result)

func (f ReceiverFunc) Done(r Result) { f(r) }

// Footprint is what one owner's requests may have left on one node, as far as the pipe knows. The zero
// value is ready for use.
type Footprint struct {
	abandoned     atomic.Bool  // the owner no longer wants a grant
	mayArriveLate atomic.Bool  // a request for a grant was on a connection that died: it may be carried out at any time
	hasBeenAsked  atomic.Bool  // for a grant
	open          atomic.Int32 // requests for a grant, less those that are proven to have done nothing
	segment       uint32       // see arranger
}

// Abandon declares that the owner no longer wants a grant: its requests for a grant are not resent.
// It must be called before the owner's release is started, so that no request follows that release, and
// when the lock is handed over.
func (f *Footprint) Abandon() { f.abandoned.Store(true) }

// MayArriveLate reports whether a request of the owner's for a grant was on a connection that died:
// a copy of it may be carried out at any time, besides the request that was answered.
func (f *Footprint) MayArriveLate() bool { return f.mayArriveLate.Load() }

// NothingThere reports whether the server's replies prove that nothing of the owner's is there, nor
// will be: none of its requests for a grant was or will be carried out. The proof may come after
// the release was started.
func (f *Footprint) NothingThere() bool { return f.hasBeenAsked.Load() && f.open.Load() == 0 }

// asks notes that a request for a grant is on its way.
func (f *Footprint) asks() {
	f.open.Add(1)
	f.hasBeenAsked.Store(true)
}

// answered notes the outcome of a request for a grant.
func (f *Footprint) answered(r Result) {
	granted := r.Err == nil && r.Reply.Acquire.Outcome == scripts.Granted
	if !granted && (r.NothingDone || !r.Sent || r.Err == nil && !r.Resent) {
		f.open.Add(-1)
	}
}

// request is one call on its way through a pipe.
type request struct {
	call      scripts.Call
	footprint *Footprint // may be nil for a call that neither grants nor frees
	to        Receiver   // nil: nobody waits
	resends   int        // how many connections died with it
	source    bool       // sent as text, in any case
	unknown   time.Time  // when it was sent by a hash that the server did not know
	void      bool       // the server that said it was no master did nothing of it
	alone     bool       // never shares a run again: one that it shared did not settle it
	run       int        // of the first request of several that share a run: how many they are
	sealed    bool       // the last one of a write that ends with a seal
	order     uint64     // of a debt: lower ones go first
	retry     *retry     // of a release that the server has refused before
	asked     time.Time  // when it was last sent
}

// retry is the schedule of one release that the server refused.
type retry struct {
	pause time.Duration
	due   time.Time // when the release is resent
	end   time.Time // the key has expired by then: the owner asked for no grant after the first refusal
}

// isAbandoned reports whether the request is for a grant, and abandoned by its owner.
func (r request) isAbandoned() bool {
	return r.call.IsAcquire() && r.footprint != nil && r.footprint.abandoned.Load()
}

func (r request) finish(result Result) {
	if r.footprint != nil && r.call.IsAcquire() {
		r.footprint.answered(result)
	}
	if r.to != nil {
		r.to.Done(result)
	}
}
