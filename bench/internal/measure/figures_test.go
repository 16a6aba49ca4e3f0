package measure

import (
	"slices"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	all := make([]int, 100)
	for i := range all {
		all[i] = 100 - i
	}
	for p, want := range map[float64]int{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := Percentile(p, all); got != want {
			t.Errorf("%v of 1..100: %d, want %d", p, got, want)
		}
	}
	if got := Median([]int{}); got != 0 {
		t.Errorf("median of nothing: %d", got)
	}
}

func TestRatiosPairTheRounds(t *testing.T) {
	// A machine that is three times slower in the second round slows both sides.
	ours, theirs := []time.Duration{2, 6, 2}, []time.Duration{1, 3, 1}
	if got := Median(Ratios(ours, theirs)); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
}

func TestAlternateTurnsRound(t *testing.T) {
	var order []int
	all, err := Alternate(2, 2, func(side int) (int, error) {
		order = append(order, side)
		return len(order), nil
	})
	if err != nil || !slices.Equal(order, []int{0, 1, 1, 0}) || !slices.Equal(all[0], []int{1, 4}) {
		t.Errorf("order %v, results %v, %v", order, all, err)
	}
}
