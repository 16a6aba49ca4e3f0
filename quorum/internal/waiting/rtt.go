package waiting

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
)

const (
	// MinStep and MaxStep bound a step.
	MinStep, MaxStep = time.Millisecond, 20 * time.Millisecond
	// sampleEvery is how often an attempt takes the times of its answers: a clock read for each answer
	// would cost more than a mean of the same moments is worth.
	sampleEvery = 20 * time.Millisecond
)

// RTT is the round-trip time to each node, as a running mean of the times to its answers. To compare
// like with like, it should get the answers of probe nodes, and of attempts that ask all nodes at once. It is
// safe for concurrent use.
type RTT struct {
	nanos     []atomic.Int64 // by node; 0 while none is known
	sampledAt atomic.Int64   // a clock.Instant: when an attempt was last chosen
}

// NewRTT returns the round-trip times to that many nodes; none is known.
func NewRTT(nodes int) *RTT {
	r := &RTT{nanos: make([]atomic.Int64, nodes)}
	r.sampledAt.Store(-int64(sampleEvery))
	return r
}

// Observe adds the time to a node's answer to its mean, with a weight of an eighth. The first one is
// the mean.
func (r *RTT) Observe(node int, d time.Duration) {
	mean := &r.nanos[node]
	if old := mean.Load(); old > 0 {
		d = (7*time.Duration(old) + d) / 8
	}
	mean.Store(int64(max(d, 1)))
}

// Mean returns a node's round-trip time; 0 while none is known.
func (r *RTT) Mean(node int) time.Duration { return time.Duration(r.nanos[node].Load()) }

// Samples chooses an attempt that asks all nodes to take the times of its answers: one in sampleEvery.
func (r *RTT) Samples(now clock.Instant) bool {
	last := r.sampledAt.Load()
	return now.Sub(clock.Instant(last)) >= sampleEvery && r.sampledAt.CompareAndSwap(last, int64(now))
}

// Step returns a time in which one waiter's attempt becomes visible to the next: three times as long as a quorum
// takes to answer, 1 to 20 ms.
func (r *RTT) Step(quorum quorate.Rule) time.Duration {
	all := make([]time.Duration, 0, 8)
	for i := range r.nanos {
		all = append(all, r.Mean(i))
	}
	return min(max(3*quorate.Smallest(quorum, all), MinStep), MaxStep)
}
