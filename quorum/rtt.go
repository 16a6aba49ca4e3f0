package quorum

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const (
	// minStep and maxStep bound a step.
	minStep, maxStep = time.Millisecond, 20 * time.Millisecond
	// A node is slow whose mean is above twice the fastest one's plus slowMargin.
	slowMargin = 300 * time.Microsecond
	// compareEvery is how often an attempt asks all nodes, however busy the locker is, and takes
	// the times of their answers. So the means are of the same moments, and a node that
	// was slow is found to be fast again.
	compareEvery = 20 * time.Millisecond
)

// rtt is the round-trip time to each node, as a running mean of the times to its answers. To compare
// like with like, it takes the answers of attempts that were chosen to ask all nodes at once, those
// of probe nodes, and the time that a node has not answered for when a second wave is asked. A
// [core] has one.
type rtt struct {
	nanos      []atomic.Int64 // by node; 0 while none is known
	comparedAt atomic.Int64   // a clock.Instant: when an attempt was last chosen to ask all nodes
}

func newRTT(nodes int) *rtt {
	r := &rtt{nanos: make([]atomic.Int64, nodes)}
	r.comparedAt.Store(-int64(compareEvery))
	return r
}

func (r *rtt) observe(node int, d time.Duration) {
	mean := &r.nanos[node]
	if old := mean.Load(); old > 0 {
		d = (7*time.Duration(old) + d) / 8
	}
	mean.Store(int64(max(d, 1)))
}

// isSlow reports whether a node is so much slower than the fastest one that it is asked last.
func (r *rtt) isSlow(node int) bool {
	fastest := int64(0)
	for i := range r.nanos {
		if d := r.nanos[i].Load(); d > 0 && (fastest == 0 || d < fastest) {
			fastest = d
		}
	}
	return r.nanos[node].Load() > 2*fastest+int64(slowMargin)
}

// mustCompare chooses an attempt to compare the nodes, which must ask all of them: one in
// compareEvery.
func (r *rtt) mustCompare(now clock.Instant) bool {
	last := r.comparedAt.Load()
	return now.Sub(clock.Instant(last)) >= compareEvery && r.comparedAt.CompareAndSwap(last, int64(now))
}

// step returns the time that is long enough for one waiter's attempt to become visible to the next:
// three times what a quorum of that size takes to answer, 1 to 20 ms.
func (r *rtt) step(need int) time.Duration {
	all := make([]int64, 0, 8)
	for i := range r.nanos {
		all = append(all, r.nanos[i].Load())
	}
	slices.Sort(all)
	return min(max(3*time.Duration(all[need-1]), minStep), maxStep)
}
