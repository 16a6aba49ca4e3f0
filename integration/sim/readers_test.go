package sim

import (
	"flag"
	"testing"
	"time"
)

var readerSeeds = flag.Int("sim.readers", 50, "how many seeds TestReaders runs, from 1 on")

// newReaderPlan makes a plan in which most calls are readers', and writers are downgraded now and then.
func newReaderPlan(seed uint64) *plan {
	p := newPlan(seed)
	p.reads = pick(p.rng("readers"), 0.5, 0.8)
	p.bound += 2 * time.Second // a writer that was killed keeps new readers back for its reservation
	return p
}

// No seed may show a writer beside another holder, or a token of a writer's that is not above those before.
func TestReaders(t *testing.T) {
	sum := judgeSeeds(t, *readerSeeds, newReaderPlan)
	if *oneSeed != 0 || *readerSeeds < 50 {
		return
	}
	for what, least := range map[string]int{"acquired": 10 * sum.runs, "acquired by readers": 5 * sum.runs, "downgraded": sum.runs / 2,
		"entered again": sum.runs, "lost": sum.runs / 10, "held": sum.runs} {
		if sum.counts[what] < least {
			t.Errorf("%q happened %d times in %d runs, want at least %d", what, sum.counts[what], sum.runs, least)
		}
	}
}
