package waiting

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const (
	// MinStep and MaxStep bound a step.
	MinStep, MaxStep = time.Millisecond, 20 * time.Millisecond
	// A node is slow whose mean is above twice the fastest one's plus slowMargin.
	slowMargin = 300 * time.Microsecond
	// CompareEvery is how often an attempt asks all nodes, however busy the locker is, and takes
	// the times of their answers. So the means are of the same moments, and a node that
	// was slow is found to be fast again.
	CompareEvery = 20 * time.Millisecond
)

// RTT is the round-trip time to each node, as a running mean of the times to its answers. To compare
// like with like, it should get the answers of attempts that were chosen to ask all nodes at once
// ([RTT.MustCompare]), those of probe nodes, and the time that a node has not answered for when a
// second wave is asked. It is safe for concurrent use.
type RTT struct {
	nanos      []atomic.Int64 // by node; 0 while none is known
	comparedAt atomic.Int64   // a clock.Instant: when an attempt was last chosen to ask all nodes
}

// NewRTT returns the round-trip times to that many nodes; none is known.
func NewRTT(nodes int) *RTT {
	r := &RTT{nanos: make([]atomic.Int64, nodes)}
	r.comparedAt.Store(-int64(CompareEvery))
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

// IsSlow reports whether a node is so much slower than the fastest one that it is asked last.
func (r *RTT) IsSlow(node int) bool {
	fastest := time.Duration(0)
	for i := range r.nanos {
		if d := r.Mean(i); d > 0 && (fastest == 0 || d < fastest) {
			fastest = d
		}
	}
	return r.Mean(node) > 2*fastest+slowMargin
}

// MustCompare chooses an attempt to compare the nodes, which must ask all of them: one in
// CompareEvery.
func (r *RTT) MustCompare(now clock.Instant) bool {
	last := r.comparedAt.Load()
	return now.Sub(clock.Instant(last)) >= CompareEvery && r.comparedAt.CompareAndSwap(last, int64(now))
}

// Step returns the time that is long enough for one waiter's attempt to become visible to the next:
// three times what a quorum of that size takes to answer, 1 to 20 ms.
func (r *RTT) Step(need int) time.Duration {
	all := make([]time.Duration, 0, 8)
	for i := range r.nanos {
		all = append(all, r.Mean(i))
	}
	slices.Sort(all)
	return min(max(3*all[need-1], MinStep), MaxStep)
}
