// Package clock measures time for leases. Its clocks never go back, and count the time during which the machine was
// suspended. [Deadline] and [Drift] compute how long a grant may be relied on. Package fakeclock is for tests.
package clock

import (
	"math"
	"sync"
	"time"
)

// Instant is a reading of one [Clock]: nanoseconds since that clock's origin. Readings of two
// clocks, or of two processes, cannot be compared.
type Instant int64

// Never is before every other instant. It is the deadline of a node that granted nothing.
const Never Instant = math.MinInt64

const endOfTime Instant = math.MaxInt64

// Add returns the instant d after i, or the first or the last instant if the sum overflows.
// Never plus any duration is Never.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	switch {
	case i == Never:
		return Never
	case d > 0 && sum < i:
		return endOfTime
	case d < 0 && sum > i:
		return Never
	}
	return sum
}

// Sub returns the time from j to i, or the longest or the shortest duration if the difference
// overflows. Never is infinitely far from every other instant: such a difference overflows.
func (i Instant) Sub(j Instant) time.Duration {
	difference := time.Duration(i - j)
	switch {
	case i > j && (j == Never || difference < 0):
		return math.MaxInt64
	case i < j && (i == Never || difference > 0):
		return math.MinInt64
	}
	return difference
}

// Before reports whether i is earlier than j.
func (i Instant) Before(j Instant) bool { return i < j }

// Clock measures elapsed time. All methods are safe for concurrent use.
type Clock interface {
	// Now returns the present instant. It never goes back. It counts time during which the machine
	// was suspended, unless the implementation's documentation says otherwise.
	Now() Instant

	// AfterFunc calls f in its own goroutine, no earlier than d from now. The call may be late,
	// after a suspend by the suspend's length: f must read Now if the time matters.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call of [Clock.AfterFunc]. Its methods behave like the methods of the [time.Timer] that
// [time.AfterFunc] returns, and are safe for concurrent use.
type Timer interface {
	// Stop prevents the call. It returns false if the timer has fired already, in which case f may
	// still run, or has been stopped.
	Stop() bool

	// Reset sets the call to d from now. It returns true if a call was pending, which it replaces.
	// It returns false if the timer had fired or been stopped: f is then called again, and may
	// overlap with the earlier call.
	Reset(d time.Duration) bool
}

// System returns the clock of this process, always the same one. A reading does not allocate.
//
// On Linux it is CLOCK_BOOTTIME, so a step of the wall clock changes nothing. On other systems, and
// if a sandbox forbids clock_gettime, each reading advances it by the larger step of the
// monotonic clock and the wall clock. So it counts a suspend, because the wall clock
// moves on. It also counts a wall clock that is set forward, which ends leases early but never
// late. A wall clock that is set back during a suspend hides that much of the suspend.
//
// No clock counts a pause that a hypervisor hides from its virtual machine. In a testing/synctest
// bubble use package fakeclock: this clock does not follow the bubble's time.
func System() Clock { return system() }

var system = sync.OnceValue(newSystem)

// goTimers times calls by Go's monotonic clock. No clock in this package runs slower, so no call is
// early.
type goTimers struct{}

func (goTimers) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
