package handoff

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is a reading of CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share. A
// Go reading has no meaning in another process.
type instant int64

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("handoff: clock_gettime: " + err.Error()) // it has no reason to fail
	}
	return instant(ts.Nano())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

func (i instant) until() time.Duration { return i.sub(now()) }
