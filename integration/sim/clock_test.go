package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
)

// gatedClock is a client's clock. Time goes on while the process is paused, but its timers fire
// when it wakes, each in a slot of its own.
type gatedClock struct {
	*fakeclock.Clock
	gate    *gate
	callers *callers
}

func newGatedClock(rate float64, g *gate, c *callers) gatedClock {
	gated := gatedClock{fakeclock.New(), g, c}
	gated.SetRate(rate)
	return gated
}

func (c gatedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	s := c.callers.current().timerSlot()
	return c.Clock.AfterFunc(d, func() {
		s.wait()
		c.gate.pass(s)
		f()
	})
}

// callers tells the flows of a client's process apart if the library acts for a flow and does
// not name it: for a timer, or for the random part of a wait. Two flows may do so at one instant,
// in any order, and each must get its own.
type callers struct {
	byGoroutine sync.Map // of int to *caller
	others      *caller
}

// caller is a flow, as its clock and its random numbers see it.
type caller struct {
	first slot // of its timers

	mu     sync.Mutex // only others needs it
	rng    *rand.Rand
	timers slot // so far
}

// newCaller makes the caller of a flow. The number after the last flow's makes others.
func (p *plan) newCaller(client, flow int) *caller {
	return &caller{rng: p.rng("waits", uint64(client), uint64(flow)), first: timeSlots +
		slot(client*(p.flows+1)+flow)*timersEach}
}

func (c *callers) enter(flow *caller) { c.byGoroutine.Store(goroutine(), flow) }

func (c *callers) current() *caller {
	if known, found := c.byGoroutine.Load(goroutine()); found {
		return known.(*caller)
	}
	return c.others
}

// Uint64 makes callers a rand.Source.
func (c *callers) Uint64() uint64 {
	caller := c.current()
	caller.mu.Lock()
	defer caller.mu.Unlock()
	return caller.rng.Uint64()
}

func (c *caller) timerSlot() slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers++
	return c.first + c.timers%timersEach
}

// goroutine returns the id of the calling goroutine.
func goroutine() (id int) {
	var text [32]byte
	n := runtime.Stack(text[:], false)
	if _, err := fmt.Sscanf(string(text[:n]), "goroutine %d ", &id); err != nil {
		panic(err)
	}
	return id
}
