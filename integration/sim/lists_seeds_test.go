package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

var listSeeds = flag.Int("sim.lists", 30, "how many seeds TestListsThatChange runs, from 1 on")

// The same must hold while the masters change, in any order of steps and with steps that stop
// anywhere: with clients that have the next list, the last one, one from long ago, and a wrong one.
func TestListsThatChange(t *testing.T) { judgeSeeds(t, *listSeeds, newListPlan) }

// Without the comparison of lists, a client that has only three of the five masters holds alongside
// the others. With it the same runs show no two holders.
func TestListsUncheckedFindTwo(t *testing.T) {
	find := func(anyList bool) (found []uint64) {
		for seed := uint64(1); seed <= 10 && (!anyList || len(found) == 0); seed++ { // one control is enough
			p := newListPlan(seed)
			if p.masters < 5 {
				continue
			}
			p.lists.anyList, p.names, p.rest = anyList, p.names[:1], 0.02
			p.lists.first, p.lists.wrong[1], p.lists.manners[1] = []int{0, 1, 2, 3, 4}, []int{0, 1, 2}, stale
			all := play(t, p).violations(true)
			if at := slices.IndexFunc(all, overlaps); at >= 0 {
				if len(found) == 0 {
					t.Logf("for example: %v\n%v", p, all[at])
				}
				found = append(found, seed)
			}
		}
		t.Logf("any list %v: two holders in the seeds %d", anyList, found)
		return found
	}
	if len(find(true)) == 0 {
		t.Error("two holders were never found")
	}
	if len(find(false)) > 0 {
		t.Error("with the comparison, two holders were found")
	}
}

// A claim accepts nobody, nor those with the next list: a claimed master that copied a change under way granted to
// them at once, alongside a holder from before the power failed. Found by TestListsThatChange as two
// holders.
func TestListsWhenThePowerFails(t *testing.T) {
	for _, seed := range []uint64{46, 64, 110} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newListPlan(seed)
			p.faults, p.windows, p.loss, p.slow = nil, nil, 0, 0
			powerFails(p)
			judge(t, p)
		})
	}
}
