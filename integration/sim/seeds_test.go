package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
)

var (
	seeds    = flag.Int("sim.seeds", 101, "how many seeds TestSeeds runs, from 1 on")
	oneSeed  = flag.Uint64("sim.seed", 0, "run only this seed")
	repeat   = flag.Int("sim.repeat", 1, "how often to run each seed: a few events are left to chance")
	lastLine = flag.Int("sim.trace", 150, "how many lines of a failed run's trace to print; 0 for all")
)

func TestMain(m *testing.M) {
	world.OneProcessor()
	debug.SetGCPercent(1600) // the heap is small: a tenth less work
	os.Exit(m.Run())
}

// No seed may show two holders, a token that does not rise, a lost write, a stranded waiter, or a
// key left behind.
func TestSeeds(t *testing.T) {
	want := map[string]float64{
		"acquired": 10, "entered again": 1, "lost": 0.1, "late write fenced off": 0.001,
		"held": 1, "quarantined": 0.1, "unavailable": 0.1, "probes": 1, "locks after a probe": 1, "tried together": 0.9,
	}
	for _, k := range world.Kinds {
		want[k.Name] = k.Weight / 4
	}
	judgeSeeds(t, *seeds, newPlan).want(t, 101, want)
}

// eachSeed plays the seeds from 1 on, or only sim.seed, and returns how many these are.
func eachSeed(t *testing.T, seeds int, play func(t *testing.T, seed uint64)) int {
	t.Helper()
	first := uint64(1)
	if *oneSeed != 0 {
		first, seeds = *oneSeed, 1
	}
	t.Run("seed", func(t *testing.T) {
		for i := range uint64(seeds) {
			t.Run(fmt.Sprint(first+i), func(t *testing.T) {
				t.Parallel()
				play(t, first+i)
			})
		}
	})
	return seeds
}

// judgeSeeds judges the plans of the seeds.
func judgeSeeds(t *testing.T, seeds int, planOf func(seed uint64) *plan) *totals {
	t.Helper()
	sum := &totals{counts: map[string]int{}}
	eachSeed(t, seeds, func(t *testing.T, seed uint64) {
		for range *repeat {
			sum.add(judge(t, planOf(seed)))
		}
	})
	t.Log(sum)
	return sum
}

// judge plays a plan with honest clocks and reports every violation.
func judge(t *testing.T, p *plan) *run {
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

func (w *run) report(t *testing.T) {
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
	return fmt.Sprintf("go test -C integration ./sim -run '%s$' -sim.seed=%d -sim.repeat=20 -sim.trace=0", p.test, p.seed)
}

var crowdSeeds = flag.Int("sim.crowds", 21, "how many seeds TestCrowds runs, from 1 on")

// The same must hold if requests of several flows share runs of a script, under every fault.
func TestCrowds(t *testing.T) {
	judgeSeeds(t, *crowdSeeds, newCrowdPlan).want(t, 21, map[string]float64{"acquires": 10, "releases": 3,
		"acquires of mixed outcomes": 5, "acquires refused": 0.5, "acquired": 20})
}

var readerSeeds = flag.Int("sim.readers", 50, "how many seeds TestReaders runs, from 1 on")

// newReaderPlan makes a plan in which most calls are readers', and writers are downgraded now and then.
func newReaderPlan(seed uint64) *plan {
	p := newPlan(seed)
	p.test = "TestReaders"
	p.reads = pick(p.rng("readers"), 0.5, 0.8)
	p.bound += 2 * time.Second // a writer that was killed keeps new readers back for its reservation
	return p
}

// No seed may show a writer alongside another holder, or a token of a writer's that is not above those before.
func TestReaders(t *testing.T) {
	judgeSeeds(t, *readerSeeds, newReaderPlan).want(t, 50, map[string]float64{"acquired": 10, "acquired by readers": 5,
		"downgraded": 0.5, "entered again": 1, "lost": 0.1, "held": 1})
}

// Clocks beyond the drift allowance let two clients hold at once: the checker must find that. The
// fencing tokens must still be right.
func TestOutsideDrift(t *testing.T) {
	for what, stray := range map[string]func(*plan){
		"a client's clock is slow": func(p *plan) { p.clientRate[0] = 0.7 },
		"masters' clocks are fast": func(p *plan) {
			for i := range p.masterRate {
				p.masterRate[i] = 1.3
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			found := countOverlaps(t, 15, newPlan, func(p *plan) bool {
				stray(p)
				p.fixed, p.longest = 0.8, 2.5 // renewal hides a good deal of drift
				p.setBound()
				return true
			}, true)
			testkit.Check(t, found != 0, "two holders were never found")
		})
	}
}

// Masters that forget and are trusted at once grant a lock twice. Here the power of all masters
// fails now and then, and nothing had reached the disk. With the quarantine the same runs must show
// no two holders.
func TestWithoutQuarantineFindsTwo(t *testing.T) {
	trusting := func(p *plan) bool { p.noQuarantine = true; return powerFails(p) }
	testkit.Check(t, countOverlaps(t, 30, newPlan, trusting, false) != 0, "two holders were never found")
	found := countOverlaps(t, 15, newPlan, powerFails, true)
	testkit.Check(t, found == 0, "with quarantine two holders were found in %d seeds", found)
}

// powerFails makes the power of all masters fail now and then. Nothing has reached the disk.
func powerFails(p *plan) bool {
	p.ahead = false
	for at := p.lease; at < p.healed; at += 2 * p.lease {
		for m := range p.masters {
			p.faults = append(p.faults, world.Fault{Kind: world.KindOf("crash"), Master: m, At: at, Lasts: p.lease / 20})
		}
	}
	return true
}

// countOverlaps plays the plans of some seeds with a change that may let two clients hold at once, and none of those that
// change returns false for. It returns the number of seeds in which the checker found two holders. With tokens set, a wrong
// token fails the test. Without, the first such seed is enough.
func countOverlaps(t *testing.T, seeds uint64, planOf func(seed uint64) *plan, change func(*plan) bool, tokens bool) (found int) {
	t.Helper()
	for seed := uint64(1); seed <= seeds && (tokens || found == 0); seed++ {
		p := planOf(seed)
		if !change(p) {
			continue
		}
		w := play(t, p)
		if all := w.violations(true); slices.ContainsFunc(all, overlaps) {
			if found++; found == 1 {
				t.Logf("for example: %v\n%v", p, all[slices.IndexFunc(all, overlaps)])
			}
		}
		if tokens {
			for _, v := range w.violations(false) {
				w.failures = append(w.failures, v.String())
			}
		} else {
			w.failures = slices.DeleteFunc(w.failures, func(f string) bool { return !strings.Contains(f, "stranded") })
		}
		w.report(t)
	}
	t.Logf("two holders in %d of %d seeds", found, seeds)
	return found
}

var replays = flag.Int("sim.replays", 10, "how many seeds TestReplay plays twice, from 1 on")

// A seed is one run, to the nanosecond, whatever the scheduler does. The package
// comment tells of the seldom exceptions.
func TestReplay(t *testing.T) {
	var differ atomic.Int64
	played := eachSeed(t, *replays, func(t *testing.T, seed uint64) {
		p := newPlan(seed)
		once, again := play(t, p), play(t, p)
		if !same(t, once.sorted(), again.sorted()) {
			t.Logf("%v", p)
			differ.Add(1)
		}
	})
	n := differ.Load()
	testkit.Check(t, n <= int64(played)/10, "%d of %d seeds had two different runs", n, played)
}

// same compares the traces of two runs, with the events, and logs where they differ.
func same(t *testing.T, once, again []string) bool {
	t.Helper()
	at := 0
	for at < min(len(once), len(again)) && once[at] == again[at] {
		at++
	}
	if at == len(once) && at == len(again) {
		return true
	}
	t.Logf("two runs, of %d and %d lines, behind\n%s", len(once), len(again), strings.Join(once[max(0, at-10):at], "\n"))
	t.Logf("once\n%s\nand again\n%s", strings.Join(once[at:min(len(once), at+5)], "\n"), strings.Join(again[at:min(len(again), at+5)], "\n"))
	return false
}
