// Package looks has what a master said of itself, and when: for package operator and the command.
package looks

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/membership"
)

// Look is what a master said of itself, and when. The zero Look is of one that did not answer.
type Look struct {
	View       *membership.View
	Sent, Came clock.Instant // of [clock.System]
}

// Gained returns by how much at least the master's clock has gained on this machine's since an earlier look; negative: it has
// lost. It is 0 if that may be the round trips. It also returns the time between the looks.
func (l Look) Gained(since Look) (gain, elapsed time.Duration) {
	if l.View == nil || since.View == nil {
		return 0, 0
	}
	const tick = time.Millisecond // of the master's clock, as a look has it
	theirs, most, least := l.View.Now-since.View.Now, l.Came.Sub(since.Sent), l.Sent.Sub(since.Came)
	return beyond(theirs-tick-most, theirs+tick-least), least
}

// beyond returns the value between two bounds that is closest to 0.
func beyond(least, most time.Duration) time.Duration { return max(least, 0) + min(most, 0) }

// Ahead returns by how much at least the master's clock is ahead of this machine's, which was read before and after the look;
// negative: behind.
func (l Look) Ahead(before, after time.Time) time.Duration {
	return beyond(l.View.Now-time.Duration(after.UnixNano()), l.View.Now+time.Millisecond-time.Duration(before.UnixNano()))
}
