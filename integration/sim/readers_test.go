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

// No seed may show a writer alongside another holder, or a token of a writer's that is not above those before.
func TestReaders(t *testing.T) {
	judgeSeeds(t, *readerSeeds, newReaderPlan).want(t, 50, map[string]float64{"acquired": 10, "acquired by readers": 5,
		"downgraded": 0.5, "entered again": 1, "lost": 0.1, "held": 1})
}
