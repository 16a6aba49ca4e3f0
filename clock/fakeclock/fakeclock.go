// Package fakeclock has clocks for tests: one that moves as the test says, and [Monotonic].
package fakeclock

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Clock is a clock for tests. [Clock.Advance] moves its time, and [Clock.SetRate] lets its time pass
// with Go's clock. All methods are safe for concurrent use.
//
// Advance calls the timers that fall due on its way. A timer that falls due otherwise, by the rate
// or because it was set to 0, is called in its own goroutine, as by any [clock.Clock].
type Clock struct {
	mu        sync.Mutex
	base      clock.Instant // the time at the instant since of Go's clock
	since     time.Time     // not read while rate is 0: a clock that stands still depends on no other
	rate      float64
	timers    []*fakeTimer // in order of due time, then of setting
	settings  uint64       // how often any timer was set
	advancing int          // running calls of Advance
	wake      *time.Timer  // for the earliest timer
}

var _ clock.Clock = (*Clock)(nil)

// New returns a clock at instant 0 that stands still.
func New() *Clock { return &Clock{} }

// Now returns the fake time.
func (c *Clock) Now() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

// AfterFunc calls f once d has passed on this clock; see [Clock] for the goroutine. A d below 0
// counts as 0.
func (c *Clock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &fakeTimer{clock: c, f: f}
	t.Reset(d)
	return t
}

// Advance moves the time by d. It calls every timer that falls due within d, in order of due time,
// one after another in the caller's goroutine. At rate 0, Now returns the timer's due time during
// its call. The calls may set, reset and stop timers, but must not wait for one. A timer that
// resets itself to 0 each time keeps Advance from returning. A d below 0 counts as 0.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.advancing++ // from here on, step calls the timers, and fire does not
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

// step moves the time to the next timer that is due within left, and lowers left by as much. It
// returns the timer's call, or nil when all of left has passed.
func (c *Clock) step(left *time.Duration) func() {
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

// SetRate lets the time pass from now on, at rate fake seconds per second of Go's clock. At rate 0
// the clock stands still; a negative rate or NaN counts as 0. Inside a testing/synctest bubble,
// Go's clock is the bubble's.
func (c *Clock) SetRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.since = c.nowLocked(), time.Now()
	c.rate = 0
	if rate > 0 {
		c.rate = rate
	}
	c.armLocked()
}

func (c *Clock) nowLocked() clock.Instant {
	if c.rate == 0 {
		return c.base
	}
	return c.base.Add(duration(math.Round(float64(time.Since(c.since)) * c.rate)))
}

// armLocked sets wake for the earliest timer, if that can fall due without Advance.
func (c *Clock) armLocked() {
	if c.wake != nil {
		c.wake.Stop() // a wake that has fired already finds no timer due, and arms again
	}
	if len(c.timers) == 0 {
		return
	}
	left := c.timers[0].due.Sub(c.nowLocked())
	switch {
	case left <= 0:
		c.wake = time.AfterFunc(0, c.fire)
	case c.rate > 0:
		c.wake = time.AfterFunc(duration(math.Ceil(float64(left)/c.rate)), c.fire)
	}
}

func (c *Clock) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.advancing > 0 {
		return // Advance arms again at its end
	}
	now := c.nowLocked()
	for len(c.timers) > 0 && !now.Before(c.timers[0].due) {
		go c.timers[0].f()
		c.timers = slices.Delete(c.timers, 0, 1)
	}
	c.armLocked()
}

type fakeTimer struct {
	clock   *Clock
	f       func()
	due     clock.Instant
	setting uint64 // unique among the clock's settings: the search for a timer that has fired finds none
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

// duration converts nanoseconds. What overflows becomes the longest duration.
func duration(nanoseconds float64) time.Duration {
	if nanoseconds < math.MaxInt64 {
		return time.Duration(nanoseconds)
	}
	return math.MaxInt64
}

// Monotonic returns a clock over [time.Now] and [time.AfterFunc]. Call it inside a testing/synctest bubble for a
// clock that follows the bubble's time. It does not count the time during which the machine was suspended.
func Monotonic() clock.Clock { return &monotonic{time.Now()} }

type monotonic struct{ origin time.Time }

func (c *monotonic) Now() clock.Instant { return clock.Instant(time.Since(c.origin)) }

func (*monotonic) AfterFunc(d time.Duration, f func()) clock.Timer { return time.AfterFunc(d, f) }
