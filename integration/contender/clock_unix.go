//go:build unix

package contender

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock that events and reports have: nanoseconds that all processes of a machine share, and that nobody sets. The
// wall clock of a virtual machine is set every now and then, by milliseconds.
func Now() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
