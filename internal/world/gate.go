package world

import "sync"

// gate is passed by every action of a process. It is shut while the process is paused. A nil gate is open.
type gate struct {
	mu     sync.Mutex
	shut   int // pauses that have not ended
	opened chan struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut++; g.shut == 1 {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut--; g.shut == 0 {
		close(g.opened)
	}
}

// closed returns what is closed when the gate opens, and whether it is shut.
func (g *gate) closed() (opened <-chan struct{}, shut bool) {
	if g == nil {
		return nil, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.shut > 0
}

// pass waits until the gate is open, and then for the caller's slot.
func (g *gate) pass(s Slot) {
	for opened, shut := g.closed(); shut; opened, shut = g.closed() {
		<-opened
		s.Wait()
	}
}
