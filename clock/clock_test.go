package clock

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	longest  time.Duration = math.MaxInt64
	shortest time.Duration = math.MinInt64
)

func TestInstantAdd(t *testing.T) {
	for _, test := range []struct {
		name string
		i    Instant
		d    time.Duration
		want Instant
	}{
		{"forward", 5, 7, 12},
		{"back", 5, -7, -2},
		{"to the very end", endOfTime - 1, 1, endOfTime},
		{"past the end", endOfTime - 1, 2, endOfTime},
		{"far past the end", endOfTime, longest, endOfTime},
		{"to the very beginning", Never + 1, -1, Never},
		{"before the beginning", Never + 1, -2, Never},
		{"far before the beginning", -1, shortest, Never},
		{"never, later", Never, time.Hour, Never},
		{"never, earlier", Never, -time.Hour, Never},
		{"never, as late as can be", Never, longest, Never},
	} {
		testkit.Equal(t, test.i.Add(test.d), test.want, test.name)
	}
}

func TestInstantSub(t *testing.T) {
	for _, test := range []struct {
		name string
		i, j Instant
		want time.Duration
	}{
		{"later", 12, 5, 7},
		{"earlier", 5, 12, -7},
		{"equal", 5, 5, 0},
		{"longest that fits", endOfTime, 0, longest},
		{"too long", endOfTime, -1, longest},
		{"far too long", endOfTime, Never + 1, longest},
		{"shortest that fits", -2, endOfTime - 1, shortest},
		{"too short", -3, endOfTime, shortest},
		{"far too short", Never + 1, endOfTime, shortest},
		{"never from now", Never, 5, shortest},
		{"never from before the origin", Never, -5, shortest},
		{"since never", 5, Never, longest},
		{"since never, before the origin", -5, Never, longest},
		{"never from never", Never, Never, 0},
	} {
		testkit.Equal(t, test.i.Sub(test.j), test.want, test.name)
	}
}

func TestInstantBefore(t *testing.T) {
	for _, i := range []Instant{Never + 1, -1, 0, 1, endOfTime} {
		testkit.Check(t, Never.Before(i), "Never is not before %d", i)
		testkit.Check(t, !i.Before(Never) && !i.Before(i), "%d is before Never or itself", i)
	}
}

func TestDrift(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name   string
		lease  time.Duration
		factor float64
		want   time.Duration
	}{
		{"default lease", 30 * time.Second, DefaultDriftFactor, 302 * ms},
		{"short lease", 10 * ms, DefaultDriftFactor, 2*ms + 100*time.Microsecond},
		{"another factor", time.Second, 0.25, 252 * ms},
		{"rounded up", 1, DefaultDriftFactor, 2*ms + 1},
		{"no factor", time.Hour, 0, 2 * ms},
		{"no lease", 0, DefaultDriftFactor, 2 * ms},
		{"negative lease", -time.Hour, DefaultDriftFactor, 2 * ms},
		{"too long a lease", longest, 1, longest},
		{"too large a factor", time.Second, 1e300, longest},
		{"infinite factor", time.Second, math.Inf(1), longest},
		{"infinite factor of nothing", 0, math.Inf(1), longest},
		{"negative factor", time.Second, -DefaultDriftFactor, longest},
		{"factor not a number", time.Second, math.NaN(), longest},
	} {
		testkit.Equal(t, Drift(test.lease, test.factor), test.want, test.name)
	}
}

func TestDriftOfWholeLeasesIsExact(t *testing.T) {
	for lease := time.Millisecond; lease < 100*time.Second; lease += 7 * time.Millisecond {
		got, want := Drift(lease, DefaultDriftFactor), lease/100+2*time.Millisecond
		testkit.Require(t, got == want, "Drift(%v) = %v, want %v", lease, got, want)
	}
}

func TestDeadline(t *testing.T) {
	const sent = Instant(time.Hour)
	for _, test := range []struct {
		name   string
		sent   Instant
		lease  time.Duration
		factor float64
		want   Instant
	}{
		{"default lease", sent, 30 * time.Second, DefaultDriftFactor, sent.Add(29698 * time.Millisecond)},
		{"lease shorter than the drift", sent, time.Millisecond, 0, sent.Add(-time.Millisecond)},
		{"never sent", Never, time.Hour, DefaultDriftFactor, Never},
		{"end of time", endOfTime, time.Hour, 0, endOfTime.Add(-2 * time.Millisecond)},
		{"before time", Never + 1, shortest, 0, Never},
		{"negative lease and factor above 1", sent, -time.Second, 2, sent.Add(-1002 * time.Millisecond)},
	} {
		testkit.Equal(t, Deadline(test.sent, test.lease, test.factor), test.want, test.name)
	}
}

func TestAWrongFactorGrantsNothing(t *testing.T) {
	const sent = Instant(time.Hour)
	for _, factor := range []float64{-1, math.Inf(-1), math.Inf(1), math.NaN()} {
		for _, lease := range []time.Duration{shortest, -time.Second, 0, time.Second, longest} {
			deadline := Deadline(sent, lease, factor)
			testkit.Check(t, deadline.Before(sent),
				"lease %v, factor %v: deadline %d is not before the request was sent", lease, factor, deadline)
		}
	}
}

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
