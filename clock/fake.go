package clock

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// Fake is a clock for tests, with a time of its own that Advance moves and that passes, at the rate set by SetRate,
// with Go's clock. All methods are safe for concurrent use.
//
// A timer that falls due because its time was Advanced to is called by Advance. One that falls due otherwise, through
// the rate or because it was set to no time at all, is called in its own goroutine, as by any Clock.
type Fake struct {
	mu        sync.Mutex
	base      Instant   // the time when Go's clock showed since
	since     time.Time // unused while rate is 0, so that a Fake that stands still reads no other clock
	rate      float64
	timers    []*fakeTimer // in order of due time, then of setting
	settings  uint64       // how many times a timer was set
	advancing int          // calls of Advance under way
	wake      *time.Timer  // for the earliest timer
}

var _ Clock = (*Fake)(nil)

// NewFake returns a clock at instant 0 that stands still.
func NewFake() *Fake { return &Fake{} }

// Now returns the fake time.
func (c *Fake) Now() Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

// AfterFunc calls f once d has passed on this clock; see Fake for where. A d below 0 counts as 0.
func (c *Fake) AfterFunc(d time.Duration, f func()) Timer {
	t := &fakeTimer{clock: c, f: f}
	t.Reset(d)
	return t
}

// Advance moves the time by d, and on the way calls, one after another in the caller's goroutine, every timer that
// falls due, in order of due time. At rate 0 each reads its due time from Now. The calls may set, reset and stop
// timers, also such as fall due within d, but must not wait for one, and a timer that keeps resetting itself to 0 never
// lets Advance return. A d below 0 counts as 0.
func (c *Fake) Advance(d time.Duration) {
	c.mu.Lock()
	c.advancing++ // from here on fire leaves to step what falls due
	c.mu.Unlock()

	defer func() { // deferred, for a call that ends the test with t.FailNow
		c.mu.Lock()
		defer c.mu.Unlock()
		c.advancing--
		c.armLocked()
	}()

	left := max(d, 0)
	for f := c.step(&left); f != nil; f = c.step(&left) {
		f()
	}
}

// step moves the time to the next timer that is due within left, lowers left by as much, and returns what to call;
// nil when there is none and all of left has passed.
func (c *Fake) step(left *time.Duration) func() {
	c.mu.Lock()
	defer c.mu.Unlock()

	way := *left
	var f func()
	if len(c.timers) > 0 {
		if gap := max(c.timers[0].due.Sub(c.nowLocked()), 0); gap <= way {
			way, f = gap, c.timers[0].f
			c.timers = slices.Delete(c.timers, 0, 1)
		}
	}
	c.base = c.base.Add(way)
	*left -= way
	return f
}

// SetRate lets the time pass at rate fake seconds per second of Go's clock from now on, and with it the timers fall
// due. 0 stands still; a negative rate or NaN counts as 0. Within a testing/synctest bubble Go's clock is that of the
// bubble.
func (c *Fake) SetRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.since = c.nowLocked(), time.Now()
	c.rate = 0
	if rate > 0 {
		c.rate = rate
	}
	c.armLocked()
}

func (c *Fake) nowLocked() Instant {
	if c.rate == 0 {
		return c.base
	}
	return c.base.Add(saturate(math.Round(float64(time.Since(c.since)) * c.rate)))
}

// armLocked sets wake for the earliest timer, if it can fall due without Advance.
func (c *Fake) armLocked() {
	if c.wake != nil {
		c.wake.Stop() // a wake that has already fired finds nothing due, and arms again
	}
	if len(c.timers) == 0 {
		return
	}
	left := c.timers[0].due.Sub(c.nowLocked())
	switch {
	case left <= 0:
		c.wake = time.AfterFunc(0, c.fire)
	case c.rate > 0:
		c.wake = time.AfterFunc(saturate(math.Ceil(float64(left)/c.rate)), c.fire)
	}
}

func (c *Fake) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.advancing > 0 {
		return // Advance arms again when it is done
	}
	now := c.nowLocked()
	for len(c.timers) > 0 && !now.Before(c.timers[0].due) {
		go c.timers[0].f()
		c.timers = slices.Delete(c.timers, 0, 1)
	}
	c.armLocked()
}

type fakeTimer struct {
	clock   *Fake
	f       func()
	due     Instant
	setting uint64 // which of the clock's settings this is: no two are the same, so a fired timer is not found again
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	defer t.clock.armLocked()
	return t.removeLocked()
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.armLocked()

	pending := t.removeLocked()
	c.settings++
	t.due, t.setting = c.nowLocked().Add(max(d, 0)), c.settings
	at, _ := slices.BinarySearchFunc(c.timers, t, byDue)
	c.timers = slices.Insert(c.timers, at, t)
	return pending
}

func (t *fakeTimer) removeLocked() bool {
	at, found := slices.BinarySearchFunc(t.clock.timers, t, byDue)
	if found {
		t.clock.timers = slices.Delete(t.clock.timers, at, at+1)
	}
	return found
}

func byDue(a, b *fakeTimer) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.setting, b.setting))
}
