package clock

import (
	"math"
	"testing"
	"time"
)

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
		if got := Drift(test.lease, test.factor); got != test.want {
			t.Errorf("%s: Drift(%v, %v) = %v, want %v", test.name, test.lease, test.factor, got, test.want)
		}
	}
}

func TestDriftOfWholeLeasesIsExact(t *testing.T) {
	for lease := time.Millisecond; lease < 100*time.Second; lease += 7 * time.Millisecond {
		if got, want := Drift(lease, DefaultDriftFactor), lease/100+2*time.Millisecond; got != want {
			t.Fatalf("Drift(%v) = %v, want %v", lease, got, want)
		}
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
		if got := Deadline(test.sent, test.lease, test.factor); got != test.want {
			t.Errorf("%s: Deadline(%d, %v, %v) = %d, want %d", test.name, test.sent, test.lease, test.factor, got, test.want)
		}
	}
}

func TestAWrongFactorGrantsNothing(t *testing.T) {
	const sent = Instant(time.Hour)
	for _, factor := range []float64{-1, math.Inf(-1), math.Inf(1), math.NaN()} {
		for _, lease := range []time.Duration{shortest, -time.Second, 0, time.Second, longest} {
			if deadline := Deadline(sent, lease, factor); !deadline.Before(sent) {
				t.Errorf("lease %v, factor %v: deadline %d is not before the request was sent", lease, factor, deadline)
			}
		}
	}
}
