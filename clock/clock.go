// Package clock tells time for leases: clocks that do not go back and count the time a machine was suspended, the
// arithmetic of validity and drift, and a fake for tests.
package clock

import (
	"math"
	"sync"
	"time"
)

// Instant is a reading of one Clock: nanoseconds since an origin of that clock's own. Readings of two clocks cannot
// be compared, and none means anything to another process.
type Instant int64

// Never is before every other instant. As a deadline it is that of a node which grants nothing.
const Never Instant = math.MinInt64

const endOfTime Instant = math.MaxInt64

// Add returns the instant d after i, or the first or last instant there is where that would overflow. Never stays
// Never, whatever is added.
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

// Sub returns the time from j to i, or the longest or shortest duration there is where that would overflow. Every
// other instant is infinitely far from Never, so the same holds when one of the two is Never.
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
	// Now returns the present instant. It never goes back. It must count time during which the machine was
	// suspended, unless the implementation says that it does not.
	Now() Instant

	// AfterFunc calls f in its own goroutine, no earlier than d from now. It may be late, after a suspend by as much
	// as the suspend lasted, so f must read Now where the time matters.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call set by AfterFunc. Its methods mean what those of a time.Timer made by time.AfterFunc mean, and are
// safe for concurrent use.
type Timer interface {
	// Stop prevents the call. It returns false if the timer had already fired or been stopped; f may then still be
	// running.
	Stop() bool

	// Reset sets the call to d from now. It returns true if one was pending, which is then replaced, and false if
	// the timer had fired or been stopped, in which case f is called again and may overlap with the earlier call.
	Reset(d time.Duration) bool
}

// System returns the clock of this process, always the same one. It is cheap to read: no reading allocates.
//
// On Linux it is CLOCK_BOOTTIME, so a step of the wall clock changes nothing. On other systems, and where a sandbox
// forbids clock_gettime, it advances from each reading to the next by the monotonic clock or by the wall clock,
// whichever moved more: a suspend is counted because the wall clock moved on, and a wall clock stepped forward
// counts as time passed, which ends leases early but never late. A wall clock set back while the machine was
// suspended hides as much of the suspend.
//
// No clock counts a pause that the hypervisor of a virtual machine hides from it. In a testing/synctest bubble use
// Monotonic or Fake: this one is not bound to the bubble's time.
func System() Clock { return system() }

var system = sync.OnceValue(newSystem)

// Monotonic returns a clock that is Go's own time.Now and time.AfterFunc, which follow the fake time of a
// testing/synctest bubble; call it inside the bubble. It does not count the time a machine was suspended, so it must
// not be trusted with real leases.
func Monotonic() Clock { return &monotonic{origin: time.Now()} }

type monotonic struct {
	goTimers
	origin time.Time
}

func (c *monotonic) Now() Instant { return Instant(time.Since(c.origin)) }

// goTimers times calls by Go's monotonic clock. No clock here runs slower than that one, so a call is never early.
type goTimers struct{}

func (goTimers) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
