package slots

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Hints that no slot is free are believed unless an attempt met others who tried; then once they have lasted.
func TestTries(t *testing.T) {
	const long = 40 * time.Millisecond
	now := clock.Instant(time.Hour)
	full := func(tries *Tries) bool {
		return tries.Full(now, 3, func(since clock.Instant) bool { return now.Sub(since) >= long })
	}
	tries := new(Tries)
	testkit.Equal(t, full(tries), true, "no attempt: full")
	tries.Refused("x")
	testkit.Equal(t, full(tries), true, "after an attempt that a holder refused: full")
	testkit.Equal(t, tries.Over(true, 3), false, "a turn with a new holder: over")
	tries.Begin()
	tries.Refused("x")
	testkit.Equal(t, tries.Over(true, 3), true, "a turn with the same holder: over")
	testkit.Equal(t, tries.Over(false, 3), false, "a turn with others, too: over")

	tries.Refused("")
	testkit.Equal(t, full(tries), false, "after an attempt that others refused: full")
	now = now.Add(long - 1)
	testkit.Equal(t, full(tries), false, "soon after: full")
	tries.Refused("")
	testkit.Equal(t, full(tries), false, "after another attempt: full")
	now = now.Add(long - 1)
	testkit.Equal(t, full(tries), false, "soon after that: full")
	now = now.Add(1)
	testkit.Equal(t, full(tries), true, "when it has lasted: full")

	// More holders than slots: some have released, and others were faster.
	tries = new(Tries)
	for i, holder := range []string{"a", "b", "c", "d"} {
		tries.Begin()
		tries.Refused("") // by some who try, too
		tries.Refused(holder)
		testkit.Equal(t, tries.Over(false, 3), i == 3, "after another holder: over")
		testkit.Equal(t, full(tries), i == 3, "after another holder: full")
	}
}
