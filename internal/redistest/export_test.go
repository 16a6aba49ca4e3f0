package redistest

import "time"

const DoBound = doBound

// Do is [Master.Do] with a bound of the caller's.
func Do(addr string, bound time.Duration, args ...any) (any, error) { return do(addr, bound, args...) }
