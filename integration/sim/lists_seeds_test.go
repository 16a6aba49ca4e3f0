package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

var listSeeds = flag.Int("sim.lists", 40, "how many seeds TestListsThatChange runs, from 1 on")

// The same must hold while the masters change, in any order of steps and with steps that stop
// anywhere: with clients that have the next list, the last one, one from long ago, and a wrong one.
func TestListsThatChange(t *testing.T) {
	first, last := uint64(1), uint64(*listSeeds)
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	sum := newTotals()
	t.Run("seed", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				for range *repeat {
					sum.add(judge(t, newListPlan(seed)))
				}
			})
		}
	})
	t.Log(sum)
}

// Without the comparison of lists, clients with different lists hold at once.
func TestListsUncheckedFindTwo(t *testing.T) {
	var found []uint64
	for seed := uint64(1); seed <= 20; seed++ {
		p := newListPlan(seed)
		p.lists.anyList = true
		w := play(t, p)
		all := w.violations(true)
		if at := slices.IndexFunc(all, overlaps); at >= 0 {
			if len(found) == 0 {
				t.Logf("for example: %v\n%v", p, all[at])
			}
			found = append(found, seed)
		}
	}
	t.Logf("two holders in the seeds %d", found)
	if len(found) == 0 {
		t.Error("two holders were never found")
	}
}
