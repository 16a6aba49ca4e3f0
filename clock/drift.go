package clock

import (
	"math"
	"time"
)

// DefaultDriftFactor is the share of a lease that is reserved for clocks of different rates. It is
// CLOCK_DRIFT_FACTOR of antirez's redlock-rb.
const DefaultDriftFactor = 0.01

const minDrift = 2 * time.Millisecond

// Drift returns how much earlier than its lease a grant ends for its holder: lease × factor + 2 ms,
// rounded up to a nanosecond.
//
// The formula is the Redlock algorithm's
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/) as antirez's redlock-rb
// computes it: the 2 ms are 1 ms for the precision with which Redis expires keys and 1 ms as the
// least drift of a short lease.
//
// A negative lease counts as 0. For a negative or NaN factor, and for a result that would overflow,
// Drift returns the longest duration: a wrong setting grants nothing, and never lengthens a lease.
func Drift(lease time.Duration, factor float64) time.Duration {
	if factor < 0 {
		return math.MaxInt64
	}
	return saturate(math.Ceil(float64(max(lease, 0))*factor) + float64(minDrift))
}

// Deadline returns the instant until which its holder may rely on a grant whose request was not
// sent before sent: sent + lease − Drift(lease, factor). It is Never when sent is Never. A sum that
// would overflow gives an earlier instant, never a later one.
func Deadline(sent Instant, lease time.Duration, factor float64) Instant {
	return sent.Add(lease).Add(-Drift(lease, factor))
}

// saturate converts nanoseconds to a Duration. A value that overflows, and NaN, becomes the longest
// one: Go leaves that conversion to the processor, and some processors return a negative number.
func saturate(nanoseconds float64) time.Duration {
	if nanoseconds < math.MaxInt64 {
		return time.Duration(nanoseconds)
	}
	return math.MaxInt64
}
