package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func bootTime(t *testing.T) Instant {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Skipf("CLOCK_BOOTTIME: %v", err)
	}
	return Instant(ts.Nano())
}

func TestSystemIsBootTime(t *testing.T) {
	for range 1000 {
		before := bootTime(t)
		now := System().Now()
		after := bootTime(t)
		if now.Before(before) || after.Before(now) {
			t.Fatalf("System is at %d, CLOCK_BOOTTIME between %d and %d", now, before, after)
		}
	}
}

func TestSystemReadsBootTime(t *testing.T) {
	var asked []int32
	c := newSystemFrom(func(clockID int32, _ *unix.Timespec) error {
		asked = append(asked, clockID)
		return nil
	})
	if len(asked) != 1 || asked[0] != unix.CLOCK_BOOTTIME {
		t.Errorf("asked for clocks %v, want only %d", asked, unix.CLOCK_BOOTTIME)
	}
	if _, ok := c.(bootClock); !ok {
		t.Errorf("got a %T", c)
	}
}

func TestSystemWithoutBootTime(t *testing.T) {
	c := newSystemFrom(func(int32, *unix.Timespec) error { return unix.EPERM })
	if _, ok := c.(*suspendClock); !ok {
		t.Fatalf("got a %T", c)
	}
	start := time.Now()
	first := c.Now()
	fired := make(chan Instant)
	c.AfterFunc(5*time.Millisecond, func() { fired <- c.Now() })
	if passed := (<-fired).Sub(first); passed < 5*time.Millisecond || passed > time.Since(start)+time.Minute {
		t.Errorf("a timer of 5ms fired after %v, %v by Go's clock", passed, time.Since(start))
	}
}

func TestBootTimeRefusedLaterEndsEveryLease(t *testing.T) {
	now := bootInstant(unix.Timespec{}, unix.EPERM)
	if deadline := Deadline(now, time.Hour, 0); !deadline.Before(now) {
		t.Errorf("a lease asked for at %d lasts until %d", now, deadline)
	}
	if got, want := bootInstant(unix.Timespec{Sec: 2, Nsec: 3}, nil), Instant(2*time.Second+3); got != want {
		t.Errorf("2s and 3ns since boot is instant %d", got)
	}
}

func TestSystemIsOneClock(t *testing.T) {
	if System() != System() {
		t.Error("two calls returned different clocks")
	}
}

func TestSystemTimerIsNotEarly(t *testing.T) {
	c := System()
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, 5 * time.Millisecond} {
		start := c.Now()
		fired := make(chan Instant)
		timer := c.AfterFunc(d, func() { fired <- c.Now() })
		if passed := (<-fired).Sub(start); passed < d {
			t.Errorf("a timer of %v fired after %v", d, passed)
		}
		if timer.Stop() {
			t.Errorf("a timer of %v could be stopped after it had fired", d)
		}
	}
	if timer := c.AfterFunc(time.Hour, func() {}); !timer.Stop() {
		t.Error("Stop of a pending timer returned false")
	}
}

func TestReadingTheSystemClockDoesNotAllocate(t *testing.T) {
	for _, c := range []Clock{System(), newSuspendClock(readGoClocks())} {
		if allocs := testing.AllocsPerRun(1000, func() { c.Now() }); allocs != 0 {
			t.Errorf("%T: %v allocations per reading", c, allocs)
		}
	}
}

func BenchmarkSystem(b *testing.B) {
	b.ReportAllocs()
	c := System()
	for b.Loop() {
		c.Now()
	}
}
