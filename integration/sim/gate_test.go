package sim

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// gate is what a client's process passes before it does anything: shut while the process is paused.
type gate struct {
	mu    sync.Mutex
	until time.Time
}

func (g *gate) shut(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until.Before(until) {
		g.until = until
	}
}

// left is how long the gate stays shut; 0 or less when it is open. A nil gate is always open.
func (g *gate) left() time.Duration {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until)
}

// pass waits until the gate is open.
func (g *gate) pass() {
	for d := g.left(); d > 0; d = g.left() {
		time.Sleep(d)
	}
}

// gatedClock is a client's clock: time goes on while the process is paused, but its timers fire when it wakes.
type gatedClock struct {
	*clock.Fake
	gate *gate
}

func newGatedClock(rate float64, g *gate) gatedClock {
	c := gatedClock{clock.NewFake(), g}
	c.SetRate(rate)
	return c
}

func (c gatedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.Fake.AfterFunc(d, func() {
		c.gate.pass()
		f()
	})
}
