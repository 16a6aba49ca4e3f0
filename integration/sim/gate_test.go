package sim

import (
	"sync"
	"time"
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

// opens returns when the gate opens, if it is shut. A nil gate is always open.
func (g *gate) opens() (at time.Time, shut bool) {
	if g == nil {
		return time.Time{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, time.Now().Before(g.until)
}

// pass waits until the gate is open, and then for the slot of whoever waited.
func (g *gate) pass(s slot) {
	for at, shut := g.opens(); shut; at, shut = g.opens() {
		time.Sleep(time.Until(s.from(at)))
	}
}
