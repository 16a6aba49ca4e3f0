package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/quorumlock/quorumlock/internal/bubble"
)

var (
	seeds    = flag.Int("sim.seeds", 200, "how many seeds TestSeeds runs, from 1 on")
	oneSeed  = flag.Uint64("sim.seed", 0, "run only this seed")
	repeat   = flag.Int("sim.repeat", 1, "how often to run each seed: a few events are left to chance")
	lastLine = flag.Int("sim.trace", 150, "how many lines of a failed run's trace to print; 0 for all")
)

func TestMain(m *testing.M) {
	bubble.OneProcessor()
	debug.SetGCPercent(1600) // the heap is small: a tenth less work
	os.Exit(m.Run())
}

// No seed may show two holders, a token that does not rise, a lost write, a stranded waiter, or a
// key left behind.
func TestSeeds(t *testing.T) {
	judgeSeeds(t, *seeds, newPlan).want(t, 101, map[string]float64{
		"acquired": 10, "entered again": 1, "lost": 0.1, "late write fenced off": 0.001,
		"held": 1, "quarantined": 0.1, "unavailable": 0.1,
		string(crash): 1, string(flush): 0.2, string(unload): 0.2, string(reset): 0.2,
		string(pause): 0.2, string(kill): 0.2, string(restart): 0.2, string(parted): 0.2,
		string(freeze): 0.2, "probes": 1, "locks after a probe": 1,
	})
}

// judgeSeeds judges the plans of the seeds from 1 on, or that of sim.seed alone.
func judgeSeeds(t *testing.T, seeds int, planOf func(seed uint64) *plan) *totals {
	t.Helper()
	first, last := uint64(1), uint64(seeds)
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	sum := newTotals()
	t.Run("seed", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				for range *repeat {
					sum.add(judge(t, planOf(seed)))
				}
			})
		}
	})
	t.Log(sum)
	return sum
}

// judge plays a plan with honest clocks and reports every violation.
func judge(t *testing.T, p *plan) *world {
	t.Helper()
	defer func() {
		if broken := recover(); broken != nil {
			t.Errorf("%v\nreplay: %s", p, p.replay())
			panic(broken)
		}
	}()
	w := play(t, p)
	for _, v := range w.violations(true) {
		w.failures = append(w.failures, v.String())
	}
	w.report(t)
	return w
}

func (w *world) report(t *testing.T) {
	t.Helper()
	if len(w.failures) == 0 {
		return
	}
	most := *lastLine
	if most <= 0 {
		most = 1 << 30
	}
	t.Errorf("%v", w.plan)
	for _, failure := range w.failures {
		t.Error(failure)
	}
	t.Logf("replay: %s\n%s", w.plan.replay(), w.trace.last(most))
}

func (p *plan) replay() string {
	test := "TestSeeds"
	switch {
	case p.lists != nil:
		test = "TestListsThatChange"
	case p.reads > 0:
		test = "TestReaders"
	case p.slots > 0:
		test = "TestSemaphores"
	case p.crowd:
		test = "TestCrowds"
	case p.handsOver:
		test = "TestHandOvers"
	}
	return fmt.Sprintf("go test -C integration ./sim -run '%s$' -sim.seed=%d -sim.repeat=20 -sim.trace=0", test, p.seed)
}
