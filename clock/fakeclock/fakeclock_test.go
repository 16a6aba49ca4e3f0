package fakeclock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.AfterFunc(1, func() { t.Error("a timer fired though no time had passed") })
		time.Sleep(time.Hour)
		now := c.Now()
		testkit.Check(t, now == 0, "it is %d", now)
		c.Advance(-time.Hour)
		now = c.Now()
		testkit.Check(t, now == 0, "it is %d after Advance of a negative duration", now)
	})
}

func TestAdvanceCallsInOrder(t *testing.T) {
	c := New()
	var log []string
	call := func(name string) func() {
		return func() { log = append(log, fmt.Sprint(name, "@", c.Now())) } // no mutex: the call must be in this goroutine
	}
	c.AfterFunc(30, call("c"))
	c.AfterFunc(10, call("a"))
	c.AfterFunc(20, call("b1"))
	c.AfterFunc(20, call("b2"))
	c.AfterFunc(41, call("later"))
	stopped := c.AfterFunc(15, call("stopped"))
	c.AfterFunc(5, func() {
		stopped.Stop()
		c.AfterFunc(7, call("nested"))
		c.AfterFunc(0, call("at once"))
		c.AfterFunc(-1, call("next"))
		c.AfterFunc(100, call("nested later"))
	})
	moved := c.AfterFunc(1, call("moved"))
	moved.Reset(20)

	c.Advance(40)
	want := []string{"at once@5", "next@5", "a@10", "nested@12", "b1@20", "b2@20", "moved@20", "c@30"}
	testkit.Check(t, slices.Equal(log, want), "called %v, want %v", log, want)
	testkit.Check(t, c.Now() == 40, "it is %d, want 40", c.Now())
}

func TestTickerWithinOneAdvance(t *testing.T) {
	c := New()
	var ticks []clock.Instant
	var timer clock.Timer
	timer = c.AfterFunc(10, func() {
		ticks = append(ticks, c.Now())
		testkit.Check(t, !timer.Reset(10), "Reset in the timer's own call returned true")
	})
	c.Advance(35)
	want := []clock.Instant{10, 20, 30}
	testkit.Check(t, slices.Equal(ticks, want), "ticks at %v, want %v", ticks, want)
}

func TestTimerResults(t *testing.T) {
	c := New()
	calls := 0
	timer := c.AfterFunc(10, func() { calls++ })
	check := func(what string, got, want bool) {
		t.Helper()
		testkit.Check(t, got == want, "%s returned %v", what, got)
	}
	check("Reset while pending", timer.Reset(20), true)
	c.Advance(19)
	check("Stop while pending", timer.Stop(), true)
	check("Stop once stopped", timer.Stop(), false)
	c.Advance(100)
	check("Reset once stopped", timer.Reset(5), false)
	c.Advance(5)
	check("Stop once fired", timer.Stop(), false)
	check("Reset once fired", timer.Reset(5), false)
	c.Advance(5)
	testkit.Check(t, calls == 2, "called %d times, want 2", calls)
}

func TestTimerOfNoTimeFiresByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		for _, d := range []time.Duration{0, -time.Hour} {
			fired := make(chan clock.Instant)
			c.AfterFunc(d, func() { fired <- c.Now() })
			now := <-fired
			testkit.Check(t, now == 0, "AfterFunc(%v) fired at %d", d, now)
		}
	})
}

// elapsed runs f when d has passed on the clock, and returns how much of Go's time that took.
func elapsed(c *Clock, d time.Duration) time.Duration {
	start := time.Now()
	fired := make(chan time.Duration)
	c.AfterFunc(d, func() { fired <- time.Since(start) })
	return <-fired
}

func TestRate(t *testing.T) {
	tests := []struct {
		rate   float64
		d      time.Duration
		goTime time.Duration // until d has passed
	}{
		{1, 6 * time.Second, 6 * time.Second},
		{0.5, 6 * time.Second, 12 * time.Second},
		{3, 6 * time.Second, 2 * time.Second},
		{3, 7, 3}, // not after 2, when 6 have passed
		{0.99, 6 * time.Second, 6*time.Second*100/99 + 1},
		{1e-6, 6 * time.Second, 6_000_000 * time.Second},
		{math.Inf(1), 6 * time.Second, 0},
	}
	for _, test := range tests {
		testkit.Bubble(t, fmt.Sprint(test.d, " at ", test.rate), func(t *testing.T) {
			c := New()
			c.SetRate(test.rate)
			took := elapsed(c, test.d)
			testkit.Check(t, took == test.goTime, "took %v, want %v", took, test.goTime)
			now := c.Now()
			testkit.Check(t, now >= clock.Instant(test.d), "fired at %d, before it was due", now)
		})
	}
}

func TestTimeIsRounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.SetRate(0.29)
		time.Sleep(100 * time.Nanosecond)
		if now := c.Now(); now != 29 { // 100 × 0.29 is 28.999999999999996
			t.Errorf("it is %d, want 29", now)
		}
	})
}

func TestRateBelowZeroStandsStill(t *testing.T) {
	for _, rate := range []float64{-1, math.Inf(-1), math.NaN()} {
		synctest.Test(t, func(t *testing.T) {
			c := New()
			c.SetRate(1)
			time.Sleep(time.Second)
			c.SetRate(rate)
			time.Sleep(time.Hour)
			now := c.Now()
			testkit.Check(t, now == clock.Instant(time.Second), "rate %v: it is %d", rate, now)
		})
	}
}

func TestSetRateMovesTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		start := time.Now()
		fired := make(chan time.Duration, 1)
		c.AfterFunc(10*time.Second, func() { fired <- time.Since(start) })

		c.SetRate(1) // 4 s of Go's clock, 4 s pass
		time.Sleep(4 * time.Second)
		c.SetRate(0) // 1 h, nothing
		time.Sleep(time.Hour)
		now := c.Now()
		testkit.Check(t, now == clock.Instant(4*time.Second), "it is %d, want 4s", now)
		c.SetRate(0.25) // 8 s, 2 s pass
		time.Sleep(8 * time.Second)
		c.SetRate(4) // 1 s, 4 s pass
		got, want := <-fired, time.Hour+13*time.Second
		testkit.Check(t, got == want, "fired after %v, want %v", got, want)
	})
}

func TestEarlierTimerIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.SetRate(2)
		block := make(chan struct{})
		late := c.AfterFunc(time.Hour, func() { t.Error("a stopped timer fired") })
		c.AfterFunc(time.Second, func() { <-block })
		took := elapsed(c, time.Second)
		testkit.Check(t, took == time.Second/2, "1s took %v during a call that blocks, want 500ms", took)
		late.Stop()
		close(block)
		time.Sleep(time.Hour)
	})
}

func TestAdvanceWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.SetRate(1)
		var log []clock.Instant
		record := func() { log = append(log, c.Now()) }
		s := clock.Instant(time.Second)

		c.AfterFunc(2*time.Second, record)
		c.AfterFunc(5*time.Second, func() {
			record()
			time.Sleep(3 * time.Second) // Go's clock does not stop for a slow call
		})
		c.AfterFunc(6*time.Second, record) // not called alongside the slow call, but after it
		later := make(chan clock.Instant)
		c.AfterFunc(20*time.Second, func() { later <- c.Now() })

		time.Sleep(time.Second)
		c.Advance(5 * time.Second)
		want := []clock.Instant{2 * s, 5 * s, 8 * s}
		testkit.Check(t, slices.Equal(log, want), "called at %v, want %v", log, want)
		testkit.Check(t, c.Now() == 9*s, "it is %d, want 1s + 5s + 3s", c.Now())
		now := <-later
		testkit.Check(t, now == 20*s, "after Advance, a timer due at 20s fired at %d", now)
	})
}

func TestSurvivesACallThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.SetRate(1)
		c.AfterFunc(time.Second, func() { panic("leaving Advance, as t.FailNow does") })
		func() {
			defer func() { _ = recover() }()
			c.Advance(time.Second)
		}()
		took := elapsed(c, time.Second)
		testkit.Check(t, took == time.Second, "1s took %v", took)
	})
}

func TestConcurrently(t *testing.T) {
	c := New()
	var fired, expected atomic.Int64
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 500 {
				d := time.Duration(1 + rand.IntN(20))
				due := c.Now().Add(d)
				expected.Add(1)
				timer := c.AfterFunc(d, func() {
					fired.Add(1)
					testkit.Check(t, !c.Now().Before(due), "a timer fired early")
				})
				before := c.Now()
				c.Advance(time.Duration(rand.IntN(5)))
				testkit.Check(t, !c.Now().Before(before), "time went back")
				if rand.IntN(2) == 0 && timer.Stop() {
					expected.Add(-1)
				}
			}
		})
	}
	users.Wait()
	c.Advance(20)
	testkit.Check(t, fired.Load() == expected.Load(), "%d timers fired, want %d", fired.Load(), expected.Load())
}

func TestMonotonicFollowsTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Monotonic()
		start := c.Now()
		fired := make(chan clock.Instant, 1)
		timer := c.AfterFunc(time.Minute, func() { fired <- c.Now() })

		time.Sleep(time.Minute - 1)
		testkit.Check(t, timer.Reset(time.Hour), "Reset of a pending timer returned false")
		got, want := (<-fired).Sub(start), time.Minute-1+time.Hour
		testkit.Check(t, got == want, "fired after %v, want %v", got, want)
		testkit.Check(t, !timer.Stop(), "Stop of a fired timer returned true")
	})
}
