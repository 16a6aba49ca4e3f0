package sim

import (
	"flag"
	"fmt"
	"testing"
)

var crowdSeeds = flag.Int("sim.crowds", 30, "how many seeds TestCrowds runs, from 1 on")

// The same must hold if requests of several flows share runs of a script, under every fault.
func TestCrowds(t *testing.T) {
	first, last := uint64(1), uint64(*crowdSeeds)
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	sum := newTotals()
	t.Run("seed", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				for range *repeat {
					sum.add(judge(t, newCrowdPlan(seed)))
				}
			})
		}
	})
	t.Log(sum)
	if last-first < 20 {
		return
	}
	for what, least := range map[string]int{"acquires": 10 * sum.runs, "releases": 3 * sum.runs, "acquires of mixed outcomes": 5 * sum.runs,
		"acquires refused": sum.runs / 2, "acquired": 20 * sum.runs} {
		if sum.counts[what] < least {
			t.Errorf("%q happened %d times in %d runs, want at least %d", what, sum.counts[what], sum.runs, least)
		}
	}
}
