package clock

import "golang.org/x/sys/unix"

// systemClock counts the time during which the machine was suspended, unlike CLOCK_MONOTONIC, and
// cannot be set.
const systemClock = unix.CLOCK_BOOTTIME

func newSystem() Clock { return newSystemFrom(unix.ClockGettime) }

// newSystemFrom tries the clock once: a seccomp filter may forbid the call. A later change of
// clocks would make readings that cannot be compared.
func newSystemFrom(gettime func(clockID int32, ts *unix.Timespec) error) Clock {
	var ts unix.Timespec
	if err := gettime(systemClock, &ts); err != nil {
		return newSuspendClock(readGoClocks())
	}
	return bootClock{}
}

type bootClock struct{ goTimers }

func (bootClock) Now() Instant {
	var ts unix.Timespec
	err := unix.ClockGettime(systemClock, &ts)
	return bootInstant(ts, err)
}

// bootInstant returns the end of time for a failed reading, for example under a seccomp filter
// installed since the first: every deadline has then passed. Any other instant could keep a lease
// alive for ever.
func bootInstant(ts unix.Timespec, err error) Instant {
	if err != nil {
		return endOfTime
	}
	return Instant(ts.Nano())
}
