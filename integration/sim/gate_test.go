package sim

import (
	"sync"
	"time"
)

// gate is passed by every action of a client's process. It is shut while the process is paused.
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

// opens returns when the gate opens, and whether it is shut. A nil gate is always open.
func (g *gate) opens() (at time.Time, shut bool) {
	if g == nil {
		return time.Time{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, time.Now().Before(g.until)
}

// pass waits until the gate is open, and then for the caller's slot.
func (g *gate) pass(s slot) {
	for at, shut := g.opens(); shut; at, shut = g.opens() {
		time.Sleep(time.Until(s.from(at)))
	}
}
