// Package poll waits for conditions in tests, and measures how long something took without the times in which the
// machine stood still.
package poll

import "time"

// Until calls a condition every few milliseconds until it holds, for at most bound, and reports
// whether it held.
func Until(bound time.Duration, holds func() bool) bool {
	late := time.NewTimer(bound)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-late.C:
			return holds()
		}
	}
	return true
}
