package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// totals are the events of many runs: they prove that the simulation reaches the cases it is for.
type totals struct {
	mu      sync.Mutex
	runs    int
	counts  map[string]int
	longest time.Duration
}

func newTotals() *totals { return &totals{counts: map[string]int{}} }

func (s *totals) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	for what, n := range w.counts {
		s.counts[what] += n
	}
	s.longest = max(s.longest, w.longest)
}

func (s *totals) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs; the longest wait after all faults had ended was %v", s.runs, s.longest)
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "\n%8d %s", s.counts[what], what)
	}
	return b.String()
}

// want fails the test if an event happened more seldom per run than that, in a number of runs that is enough to tell.
func (s *totals) want(t *testing.T, enough int, perRun map[string]float64) {
	t.Helper()
	if *oneSeed != 0 || s.runs < enough {
		return
	}
	for what, least := range perRun {
		if float64(s.counts[what]) < least*float64(s.runs) {
			t.Errorf("%q happened %d times in %d runs, want at least %v per run", what, s.counts[what], s.runs, least)
		}
	}
}
