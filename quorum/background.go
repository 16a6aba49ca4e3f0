package quorum

import "sync"

// tracker counts the goroutines and requests that are under way in the background. Close waits for
// them.
type tracker struct {
	mu    sync.Mutex
	count int
	empty chan struct{} // closed when count falls to 0; nil until idle is called
}

func (t *tracker) add() {
	t.mu.Lock()
	t.count++
	t.mu.Unlock()
}

func (t *tracker) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// start runs f in a goroutine.
func (t *tracker) start(f func()) {
	t.add()
	go func() {
		defer t.done()
		f()
	}()
}

// idle returns a channel that is closed once nothing is under way.
func (t *tracker) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	return t.empty
}
