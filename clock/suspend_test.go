package clock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// hostClocks are the two clocks of a machine. It has no mutex: a suspendClock must read it under
// its own.
type hostClocks struct{ mono, wall time.Duration }

func (h *hostClocks) read() (mono, wall time.Duration) { return h.mono, h.wall }

func (h *hostClocks) step(mono, wall time.Duration) {
	h.mono += mono
	h.wall += wall
}

func TestSuspendClock(t *testing.T) {
	type step struct{ mono, wall, want time.Duration } // since the previous reading
	const s, h = time.Second, time.Hour
	const fine = suspendTolerance / 2
	tests := []struct {
		name  string
		steps []step
	}{
		{"running", []step{{s, s, s}, {2 * s, 2 * s, 2 * s}, {0, 0, 0}}},
		{"suspended", []step{{s, s, s}, {0, h, h}, {s, s, s}}},
		{"suspended twice", []step{{s, s + h, s + h}, {s, s + h, s + h}, {s, s, s}}},
		{"wall forward", []step{{s, s + h, s + h}, {s, s, s}}},
		{"wall back", []step{{s, s - h, s}, {s, s, s}}},
		{"wall forward, then back", []step{{s, s + h, s + h}, {s, s - h, s}, {s, s, s}, {s, s, s}}},
		{"wall back, then forward", []step{{s, s - h, s}, {s, s + h, s + h}, {s, s, s}}},
		{"suspended after wall back", []step{{s, s - h, s}, {0, h, h}, {0, h, h}}},
		{"wall standing still", []step{{s, 0, s}, {s, 0, s}, {s, s, s}}},
		{"wall slewed", []step{{s, s + fine, s}, {s, s + fine, s}, {s, s + fine, s + 3*fine}, {s, s + fine, s}}},
		{"jitter", []step{{s, s + fine, s}, {s, s - fine, s}, {s, s + fine, s}, {s, s - fine, s}}},
		{"jitter after a suspend", []step{{s, s + h, s + h}, {s, s - fine, s}, {s, s + fine, s}}},
		{"mono back", []step{{s, s, s}, {-s, 0, 0}, {s, 0, 0}, {s, s, s}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			host := hostClocks{mono: 3 * h, wall: 7 * h}
			c := newSuspendClock(host.read)
			last := c.Now()
			for i, step := range test.steps {
				host.step(step.mono, step.wall)
				now := c.Now()
				testkit.Equal(t, now.Sub(last), step.want, i)
				last = now
			}
		})
	}
}

// The definition without the tolerance is the sum of the larger steps. Both agree for steps well
// above the tolerance.
func TestSuspendClockSumsTheLargerSteps(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var host hostClocks
	c := newSuspendClock(host.read)
	var want time.Duration
	for i := range 10_000 {
		mono := time.Duration(random.IntN(100)) * time.Millisecond
		wall := mono
		if random.IntN(3) == 0 {
			wall += time.Duration(random.IntN(2001)-1000) * time.Millisecond
		}
		host.step(mono, wall)
		want += max(mono, wall)
		got := c.Now().Sub(0)
		testkit.Require(t, got == want, "seed %d, reading %d: %v passed, want %v", seed, i, got, want)
	}
}

// A wall clock ticks once a microsecond, and is read ten times as often: the sum of the larger
// steps would be nearly twice the time that passed.
func TestSuspendClockDoesNotAddUpJitter(t *testing.T) {
	var host hostClocks
	c := newSuspendClock(func() (mono, wall time.Duration) { return host.mono, host.mono.Truncate(time.Microsecond) })
	for range 100_000 {
		host.mono += 100 * time.Nanosecond
		c.Now()
	}
	testkit.Equal(t, c.Now().Sub(0), host.mono, "what passed")
}

func TestSuspendClockConcurrently(t *testing.T) {
	var host hostClocks
	c := newSuspendClock(func() (mono, wall time.Duration) {
		host.step(time.Millisecond, time.Millisecond)
		return host.read()
	})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for last := c.Now(); last < Instant(time.Second); {
				now := c.Now()
				testkit.Check(t, last.Before(now), "read %d after %d", now, last)
				last = now
			}
		})
	}
	readers.Wait()
}

func TestGoClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := readGoClocks()
		time.Sleep(time.Hour)
		mono, wall := read()
		testkit.Check(t, mono == time.Hour && wall == time.Hour, "an hour later: monotonic %v, wall %v", mono, wall)
	})
}
