package quorum

import (
	"sync/atomic"
	"time"
)

// rtt measures how long a node takes to answer, as a running mean.
type rtt struct{ nanos atomic.Int64 }

func (r *rtt) observe(d time.Duration) {
	if old := r.nanos.Load(); old > 0 {
		d = (7*time.Duration(old) + d) / 8
	}
	r.nanos.Store(int64(d))
}

const minStep, maxStep = time.Millisecond, 20 * time.Millisecond

// step is long enough for one waiter's attempt to become visible to the next: three round trips.
func (r *rtt) step() time.Duration {
	return min(max(3*time.Duration(r.nanos.Load()), minStep), maxStep)
}
