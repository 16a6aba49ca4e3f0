package clock

import (
	"sync"
	"time"
)

// suspendTolerance is by how much the two clocks may move apart before that counts as time passed. Without it their
// jitter would add up: on a wall clock that ticks every microsecond, read more often than that, the sum of the larger
// steps grows at up to twice the true rate. What goes uncounted, at most twice this, is small beside the 2 ms that
// every deadline keeps in reserve.
const suspendTolerance = 100 * time.Microsecond

// suspendClock counts a suspend on systems whose monotonic clock does not. From reading to reading it advances by
// the larger of the monotonic and the wall clock's step, give or take suspendTolerance. Only the steps matter, never
// their sum: after a step forward and one back, or back and forward, the clock neither stands still nor goes back.
type suspendClock struct {
	goTimers
	read func() (mono, wall time.Duration) // since any origins

	mu      sync.Mutex
	elapsed Instant
	mono    time.Duration // at the latest reading
	ahead   time.Duration // of wall over mono, as far as accounted for
}

func newSuspendClock(read func() (mono, wall time.Duration)) *suspendClock {
	mono, wall := read()
	return &suspendClock{read: read, mono: mono, ahead: wall - mono}
}

func (c *suspendClock) Now() Instant {
	c.mu.Lock()
	defer c.mu.Unlock()

	mono, wall := c.read() // under the mutex, or an older reading could be taken for a step back from a newer one
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

// readGoClocks returns a reader of the monotonic and the wall clock, both since now and both from one time.Now, so
// that as little as possible passes between the two.
func readGoClocks() func() (mono, wall time.Duration) {
	origin := time.Now()
	return func() (mono, wall time.Duration) {
		now := time.Now()
		return now.Sub(origin), now.Round(0).Sub(origin) // Round drops the monotonic reading
	}
}
