package sim

import (
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

var replays = flag.Uint64("sim.replays", 40, "how many seeds TestReplay plays twice, from 1 on")

// A seed is one run, to the nanosecond, whatever the scheduler does. The package
// comment tells of the seldom exceptions.
func TestReplay(t *testing.T) {
	first, last := uint64(1), *replays
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	var differ atomic.Uint64
	t.Run("seed", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				p := newPlan(seed)
				once, again := play(t, p), play(t, p)
				if !same(t, "trace", once.trace.sorted(), again.trace.sorted()) ||
					!same(t, "history", once.history(), again.history()) {
					t.Logf("%v", p)
					differ.Add(1)
				}
			})
		}
	})
	if n, played := differ.Load(), last-first+1; n > played/10 {
		t.Errorf("%d of %d seeds had two different runs", n, played)
	}
}

// history returns the events in an order that does not depend on when they were added.
func (w *world) history() []string {
	var all []string
	lockers := w.trace.lockers()
	for _, e := range w.log.Events() {
		all = append(all, lockers.Replace(fmt.Sprintf("%+v", e)))
	}
	slices.Sort(all)
	return all
}

// same compares two runs and logs the first difference, with the equal lines before it.
func same(t *testing.T, what string, once, again []string) bool {
	t.Helper()
	if slices.Equal(once, again) {
		return true
	}
	at := 0
	for at < min(len(once), len(again)) && once[at] == again[at] {
		at++
	}
	t.Logf("two runs: %s, of %d and %d lines, differing from line %d on", what, len(once), len(again), at+1)
	for _, line := range once[max(0, at-*before):at] {
		t.Log("  ", line)
	}
	for _, line := range once[at:min(len(once), at+5)] {
		t.Log("- ", line)
	}
	for _, line := range again[at:min(len(again), at+5)] {
		t.Log("+ ", line)
	}
	return false
}

var before = flag.Int("sim.before", 10, "how many lines before a difference to print")
