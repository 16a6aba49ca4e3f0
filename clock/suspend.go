package clock

import (
	"sync"
	"time"
)

// suspendTolerance is by how much the two clocks may move apart before the difference counts as
// time. Without it their jitter would add up: on a wall clock that ticks every microsecond, and is
// read more often, the sum of the larger steps grows at up to twice the true rate. At most twice
// the tolerance stays uncounted, which is little against the 2 ms that every deadline keeps in
// reserve.
const suspendTolerance = 100 * time.Microsecond

// suspendClock counts a suspend on systems whose monotonic clock does not. Each reading advances it
// by the larger of the monotonic clock's step and the wall clock's, to within suspendTolerance.
// Only the steps matter, not their sum: after a step forward and one back, in either order, the
// clock neither stands still nor goes back.
type suspendClock struct {
	goTimers
	read func() (mono, wall time.Duration) // since any origins

	mu      sync.Mutex
	elapsed Instant
	mono    time.Duration // at the latest reading
	ahead   time.Duration // how far wall is ahead of mono, as accounted for so far
}

func newSuspendClock(read func() (mono, wall time.Duration)) *suspendClock {
	mono, wall := read()
	return &suspendClock{read: read, mono: mono, ahead: wall - mono}
}

func (c *suspendClock) Now() Instant {
	c.mu.Lock()
	defer c.mu.Unlock()

	mono, wall := c.read() // under the mutex: an older reading after a newer one would look like a step back
	mono = max(mono, c.mono)
	c.elapsed = c.elapsed.Add(mono - c.mono)
	c.mono = mono

	jump := wall - mono - c.ahead
	if jump > suspendTolerance {
		c.elapsed = c.elapsed.Add(jump)
	}
	if jump.Abs() > suspendTolerance {
		c.ahead += jump
	}
	return c.elapsed
}

// readGoClocks returns a reader of the monotonic and the wall clock, both since now. It takes both
// from one time.Now, so that they are readings of the same moment.
func readGoClocks() func() (mono, wall time.Duration) {
	origin := time.Now()
	return func() (mono, wall time.Duration) {
		now := time.Now()
		return now.Sub(origin), now.Round(0).Sub(origin) // Round drops the monotonic reading
	}
}
