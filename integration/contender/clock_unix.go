//go:build unix

package contender

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock of events and reports: nanoseconds that all processes of a machine share.
// This clock is never set, and the wall clock of a virtual machine is set now and then, by
// milliseconds.
func Now() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
