package world

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
)

// gatedClock is a process' clock. Time goes on while the process is paused, but its timers fire
// when it goes on, each in a slot of its own.
type gatedClock struct {
	*fakeclock.Clock
	computer *computer
}

func (c gatedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	s := c.computer.flow().timerSlot()
	return c.Clock.AfterFunc(d, func() {
		if _, shut := c.computer.gate.closed(); !shut && s == 0 {
			f()
			return
		}
		go func() { // Leap must not wait for it
			s.Wait()
			c.computer.gate.pass(s)
			f()
		}()
	})
}

// flow is what a process does in one goroutine of the test, as its clock and its random numbers see it. They tell flows apart
// where the library acts for one and does not name it: for a timer, or for the random part of a wait. Two flows may do so at one
// instant, in any order, and each must get its own.
type flow struct {
	computer *computer
	number   int

	mu     sync.Mutex // only flow 0 needs it
	rng    *rand.Rand
	timers int // so far
}

func (c *computer) newFlow(number int) *flow {
	return &flow{computer: c, number: number, rng: rand.New(c.world.Source("waits", c.Number, number))}
}

// Enter makes the calling goroutine the process' flow of that number, from 1 on.
func (c *computer) Enter(number int) { c.flows.Store(goroutine(), c.newFlow(number)) }

// flow returns the caller's, or the one of all that entered none.
func (c *computer) flow() *flow {
	if c.world.weather != nil {
		if known, found := c.flows.Load(goroutine()); found {
			return known.(*flow)
		}
	}
	return c.noFlow
}

// Uint64 makes a process a [rand.Source], for the waits of its locker.
func (c *computer) Uint64() uint64 {
	f := c.flow()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.Uint64()
}

// TimerSlot returns the slot of the next timer of the calling flow.
func (c *computer) TimerSlot() Slot { return c.flow().timerSlot() }

func (f *flow) timerSlot() Slot {
	if f.computer.world.weather == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timers++
	return timerSlot(f.computer.Number, f.number, f.timers)
}

// goroutine returns the id of the calling goroutine.
func goroutine() int {
	var text [32]byte
	n := runtime.Stack(text[:], false)
	number, _, _ := strings.Cut(strings.TrimPrefix(string(text[:n]), "goroutine "), " ")
	id, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	return id
}
