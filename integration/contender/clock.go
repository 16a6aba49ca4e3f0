package contender

import "time"

// At converts an instant of this process to Now's clock. It errs to the early side: a hold must not
// look longer than it was.
func At(t time.Time) int64 {
	now := Now()
	return now + int64(time.Until(t))
}
