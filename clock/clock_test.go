package clock

import (
	"math"
	"testing"
	"time"

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
		if got := test.i.Add(test.d); got != test.want {
			t.Errorf("%s: Instant(%d).Add(%d) = %d, want %d", test.name, test.i, test.d, got, test.want)
		}
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
		if got := test.i.Sub(test.j); got != test.want {
			t.Errorf("%s: Instant(%d).Sub(%d) = %d, want %d", test.name, test.i, test.j, got, test.want)
		}
	}
}

func TestInstantBefore(t *testing.T) {
	for _, i := range []Instant{Never + 1, -1, 0, 1, endOfTime} {
		if !Never.Before(i) {
			t.Errorf("Never is not before %d", i)
		}
		if i.Before(Never) || i.Before(i) {
			t.Errorf("%d is before Never or itself", i)
		}
	}
}
