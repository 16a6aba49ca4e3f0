package quorum

import "sync/atomic"

// counters are what a Locker counts for [Stats].
type counters struct {
	attempts                   [outcomes]atomic.Uint64
	released, lost, writeBacks atomic.Uint64
	nodes                      [maxNodes]nodeCounters
}

// nodeCounters is the part of one node.
type nodeCounters struct {
	renewals, renewalsFailed atomic.Uint64
	repairs, repairsFailed   atomic.Uint64
}
