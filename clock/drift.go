package clock

import (
	"math"
	"time"
)

// DefaultDriftFactor is the share of a lease set aside for clocks that run at different rates. It is
// CLOCK_DRIFT_FACTOR of antirez's redlock-rb.
const DefaultDriftFactor = 0.01

const minDrift = 2 * time.Millisecond

// Drift returns how much earlier than its lease a grant must be given up: lease × factor + 2 ms, rounded up to a
// nanosecond.
//
// The formula is that of the Redlock algorithm (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/)
// as antirez's redlock-rb computes it: the 2 ms are 1 ms for the precision with which Redis expires keys and 1 ms as
// the least drift of a short lease.
//
// A negative lease counts as 0. A negative or NaN factor, or a result that would overflow, gives the longest duration
// there is: a wrong setting then grants nothing, instead of lengthening a lease.
func Drift(lease time.Duration, factor float64) time.Duration {
	if factor < 0 {
		return math.MaxInt64
	}
	return saturate(math.Ceil(float64(max(lease, 0))*factor) + float64(minDrift))
}

// Deadline returns the instant until which a grant may be relied on whose request was sent no earlier than sent:
// sent + lease − Drift(lease, factor). It is Never when sent is, and too early rather than too late where the sum
// would overflow.
func Deadline(sent Instant, lease time.Duration, factor float64) Instant {
	return sent.Add(lease).Add(-Drift(lease, factor))
}

// saturate converts nanoseconds to a Duration. What one cannot hold, NaN included, becomes the longest: Go leaves such
// a conversion to the processor, and some make it negative.
func saturate(nanoseconds float64) time.Duration {
	if nanoseconds < math.MaxInt64 {
		return time.Duration(nanoseconds)
	}
	return math.MaxInt64
}
