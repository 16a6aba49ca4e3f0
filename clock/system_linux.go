package clock

import "golang.org/x/sys/unix"

// systemClock counts the time the machine was suspended, unlike CLOCK_MONOTONIC, and nobody can set it.
const systemClock = unix.CLOCK_BOOTTIME

func newSystem() Clock { return newSystemFrom(unix.ClockGettime) }

// newSystemFrom tries the clock once: a seccomp filter may forbid the call. Changing clocks later would make two
// readings that cannot be compared.
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

// bootInstant answers a failure, as of a seccomp filter put in place after the first reading, with the end of time:
// then every deadline has passed. Any other answer could keep a lease alive for ever.
func bootInstant(ts unix.Timespec, err error) Instant {
	if err != nil {
		return endOfTime
	}
	return Instant(ts.Nano())
}
