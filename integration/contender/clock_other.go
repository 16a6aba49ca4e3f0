//go:build !unix

package contender

import "time"

// Now reads the clock that events and reports have, in nanoseconds.
func Now() int64 { return time.Now().UnixNano() }
