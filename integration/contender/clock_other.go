//go:build !unix

package contender

import "time"

// Now reads the clock of events and reports, in nanoseconds.
func Now() int64 { return time.Now().UnixNano() }
