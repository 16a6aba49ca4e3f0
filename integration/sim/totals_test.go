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

// wantAll fails the test if an event happened too seldom for the number of runs.
func (s *totals) wantAll(t *testing.T) {
	t.Helper()
	for what, least := range map[string]int{
		"acquired": 10 * s.runs, "entered again": s.runs, "lost": s.runs / 10, "late write fenced off": 1,
		"held": s.runs, "quarantined": s.runs / 10, "unavailable": s.runs / 10,
		string(crash): s.runs, string(flush): s.runs / 5, string(unload): s.runs / 5, string(reset): s.runs / 5,
		string(pause): s.runs / 5, string(kill): s.runs / 5, string(restart): s.runs / 5, string(parted): s.runs / 5,
		string(freeze): s.runs / 5, "probes": s.runs, "locks after a probe": s.runs,
	} {
		if s.counts[what] < least {
			t.Errorf("%q happened %d times in %d runs, want at least %d", what, s.counts[what], s.runs, least)
		}
	}
}
