package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// gatedClock is a client's clock: time goes on while the process is paused, but its timers fire when it wakes. Each fires in a
// slot of its own.
type gatedClock struct {
	*clock.Fake
	gate    *gate
	callers *callers
}

func newGatedClock(rate float64, g *gate, c *callers) gatedClock {
	gated := gatedClock{clock.NewFake(), g, c}
	gated.SetRate(rate)
	return gated
}

func (c gatedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	s := c.callers.current().timerSlot()
	return c.Fake.AfterFunc(d, func() {
		s.wait()
		c.gate.pass(s)
		f()
	})
}

// callers tells the flows of a client's process apart where the library calls on their behalf and does not say for which: for a
// timer, or for the random part of a wait. Two flows may do so at one instant, in any order, and each must get what is its own.
type callers struct {
	byGoroutine sync.Map // of int to *caller
	others      *caller
}

// caller is a flow, as its clock and its dice see it.
type caller struct {
	first slot // of its timers

	mu     sync.Mutex // only others needs it
	dice   *rand.Rand
	timers slot // so far
}

// newCaller makes the caller of a flow; of others for the number after the last flow's.
func (p *plan) newCaller(client, flow int) *caller {
	return &caller{dice: p.dice("waits", uint64(client), uint64(flow)), first: timeSlots + slot(client*(p.flows+1)+flow)*timersEach}
}

func (c *callers) enter(flow *caller) { c.byGoroutine.Store(goroutine(), flow) }

func (c *callers) current() *caller {
	if known, found := c.byGoroutine.Load(goroutine()); found {
		return known.(*caller)
	}
	return c.others
}

// Uint64 makes the callers a rand.Source.
func (c *callers) Uint64() uint64 {
	caller := c.current()
	caller.mu.Lock()
	defer caller.mu.Unlock()
	return caller.dice.Uint64()
}

func (c *caller) timerSlot() slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers++
	return c.first + c.timers%timersEach
}

// goroutine returns the number of the goroutine that calls.
func goroutine() (id int) {
	var text [32]byte
	n := runtime.Stack(text[:], false)
	if _, err := fmt.Sscanf(string(text[:n]), "goroutine %d ", &id); err != nil {
		panic(err)
	}
	return id
}
