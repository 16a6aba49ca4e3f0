package clock

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
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
		testkit.Require(t, !now.Before(before) && !after.Before(now),
			"System is at %d, CLOCK_BOOTTIME between %d and %d", now, before, after)
	}
}

func TestSystemReadsBootTime(t *testing.T) {
	var asked []int32
	c := newSystemFrom(func(clockID int32, _ *unix.Timespec) error {
		asked = append(asked, clockID)
		return nil
	})
	testkit.Check(t, len(asked) == 1 && asked[0] == unix.CLOCK_BOOTTIME,
		"asked for clocks %v, want only %d", asked, unix.CLOCK_BOOTTIME)
	_, ok := c.(bootClock)
	testkit.Check(t, ok, "got a %T", c)
}

func TestSystemWithoutBootTime(t *testing.T) {
	c := newSystemFrom(func(int32, *unix.Timespec) error { return unix.EPERM })
	_, ok := c.(*suspendClock)
	testkit.Require(t, ok, "got a %T", c)
	start := time.Now()
	first := c.Now()
	fired := make(chan Instant)
	c.AfterFunc(5*time.Millisecond, func() { fired <- c.Now() })
	passed := (<-fired).Sub(first)
	testkit.Check(t, passed >= 5*time.Millisecond && passed <= time.Since(start)+time.Minute,
		"a timer of 5ms fired after %v, %v by Go's clock", passed, time.Since(start))
}

func TestBootTimeRefusedLaterEndsEveryLease(t *testing.T) {
	now := bootInstant(unix.Timespec{}, unix.EPERM)
	deadline := Deadline(now, time.Hour, 0)
	testkit.Check(t, deadline.Before(now), "a lease asked for at %d lasts until %d", now, deadline)
	testkit.Equal(t, bootInstant(unix.Timespec{Sec: 2, Nsec: 3}, nil), Instant(2*time.Second+3), "2s and 3ns since boot")
}

func TestSystemIsOneClock(t *testing.T) {
	testkit.Equal(t, System(), System(), "one clock")
}

func TestSystemTimerIsNotEarly(t *testing.T) {
	c := System()
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, 5 * time.Millisecond} {
		start := c.Now()
		fired := make(chan Instant)
		timer := c.AfterFunc(d, func() { fired <- c.Now() })
		passed := (<-fired).Sub(start)
		testkit.Check(t, passed >= d, "a timer of %v fired after %v", d, passed)
		testkit.Check(t, !timer.Stop(), "a timer of %v could be stopped after it had fired", d)
	}
	testkit.Check(t, c.AfterFunc(time.Hour, func() {}).Stop(), "Stop of a pending timer returned false")
}

func TestReadingTheSystemClockDoesNotAllocate(t *testing.T) {
	for _, c := range []Clock{System(), newSuspendClock(readGoClocks())} {
		testkit.Equal(t, testing.AllocsPerRun(1000, func() { c.Now() }), 0, fmt.Sprintf("%T: allocations per reading", c))
	}
}

func BenchmarkSystem(b *testing.B) {
	b.ReportAllocs()
	c := System()
	for b.Loop() {
		c.Now()
	}
}
