package quorum

import (
	"sync/atomic"
	"time"
)

// rtt is the round trip to the nodes, as a running mean over the refusals by probe nodes. A [core]
// has one for all its nodes.
type rtt struct{ nanos atomic.Int64 }

func (r *rtt) observe(d time.Duration) {
	if old := r.nanos.Load(); old > 0 {
		d = (7*time.Duration(old) + d) / 8
	}
	r.nanos.Store(int64(d))
}

const minStep, maxStep = time.Millisecond, 20 * time.Millisecond

// step returns the time that is long enough for one waiter's attempt to become visible to the next:
// three round trips, 1 to 20 ms.
func (r *rtt) step() time.Duration {
	return min(max(3*time.Duration(r.nanos.Load()), minStep), maxStep)
}
