package quorumtest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/world"
)

// Explore runs a test under random faults, once per seed from 1 to seeds, until it fails. Each seed has
// a testing/synctest bubble and three masters of its own, and takes milliseconds: the test may sleep
// for hours. The faults come within the first minutes: have the work last as long.
//
// While the test runs, masters stand still, lose their data, or crash and come back, with their data or
// empty; lockers are cut off from masters; requests and replies come late, or are lost with their
// connection; lockers' clocks run fast or slow, within what a lease allows for; and a process stands
// still in some calls of [Masters.Work]: call it where the service would work. Processes of [Masters.Run] are
// killed, or end in good order, and others take their places. After a few faults all is well again, so whoever
// waits for a lock gets it. Each locker of [Masters.Locker] or [Masters.Options] is a process. If no process
// ever stood still, Explore fails, since no seed could find what a pause does; with fewer than 20 seeds, it fails only
// if Work was never called.
//
// Each seed is a subtest, which replays alone:
//
//	go test -v -run '^TestCharge$/^seed=17$'
//
// The output of a subtest shows its faults, with the bubble's time. A seed fixes the faults and the
// library's random numbers, but not which goroutine comes first if several could go on at one instant.
// While it runs, Explore sets GOMAXPROCS to 1, which is faster and makes that order the same in most runs.
func Explore(t *testing.T, seeds int, test func(t *testing.T, masters *Masters)) {
	t.Helper()
	if seeds < 1 {
		t.Fatalf("quorumtest: Explore with %d seeds runs nothing", seeds)
	}
	exploring.Lock()
	defer exploring.Unlock()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var all pauses
	for seed := 1; seed <= seeds; seed++ {
		name := fmt.Sprint("seed=", seed)
		passed := t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { explore(t, uint64(seed), &all, test) })
		})
		if !passed {
			this := strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^")
			t.Fatalf("to replay: go test -v -run '^%s$/^%s$'", this, name)
		}
	}
	if all.ran == seeds && all.made == 0 && (all.calls == 0 || seeds >= seedsToPause) {
		t.Fatalf("quorumtest: no process ever stood still: have the test's stand-in for the work call Masters.Work within the first minutes")
	}
}

// seedsToPause is how many seeds make a pause if Work is called while there are faults: every other call pauses.
const seedsToPause = 20

// pauses counts, over all seeds, those that ran to their end, calls of Work, and pauses.
type pauses struct{ ran, calls, made int }

// exploring is for GOMAXPROCS, which is the whole process's.
var exploring sync.Mutex

// weather is of every seed, until its faults are over.
var weather = world.Weather{Latency: 200 * time.Microsecond, Slow: 0.02, Slowest: time.Second, Loss: 0.005}

func explore(t *testing.T, seed uint64, all *pauses, test func(t *testing.T, masters *Masters)) {
	t.Cleanup(func() { time.Sleep(2 * longest) }) // last: what is on its way to a closed locker arrives
	m := start(t, world.Config{Masters: 3, Seed: seed, Weather: &weather}, nil)
	x := &exploration{masters: m.fleet, over: make(chan struct{}), all: all, runs: map[int]*service{}}
	m.world.Replace = x.replace
	x.rates = rand.New(m.world.Source("rates"))
	m.exploration = x
	var faults sync.WaitGroup
	faults.Go(x.run)
	defer faults.Wait()
	defer close(x.over)
	test(t, m)
	all.ran++ // unless the seed was skipped
}

// exploration is what a seed decides.
type exploration struct {
	masters *fleet
	over    chan struct{} // closed at the end of the test

	mu     sync.Mutex
	runs   map[int]*service // by process
	rates  *rand.Rand
	healed bool
	all    *pauses
}

// newRate returns the rate of a clock that is up to 0.4 % fast or slow: two of them differ by less than a lease
// allows for.
func (x *exploration) newRate() float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return 1 + 0.004*(2*x.rates.Float64()-1)
}

// add has faults end the process of a service, too.
func (x *exploration) add(process int, s *service) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs[process] = s
}

func (x *exploration) replace(process int, kill bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs[process].replace(kill)
}

const shortest, longest = 50 * time.Millisecond, 2 * time.Minute

// lasting draws a duration, by its logarithm: leases may be short or long.
func lasting(d *rand.Rand) time.Duration {
	return time.Duration(float64(shortest) * math.Pow(float64(longest/shortest), d.Float64()))
}

// roll draws a fault: of those for which the process' work stands still, or of the others.
func (x *exploration) roll(d *rand.Rand, stills bool) []world.Fault {
	w := x.masters.world
	x.mu.Lock()
	runs := slices.Sorted(maps.Keys(x.runs))
	x.mu.Unlock()
	faults := world.Dice{Masters: len(w.Masters), Processes: w.Size(), Lasts: lasting,
		Allow: func(k *world.Kind) bool { return k.Stills == stills && (!k.Replaces || len(runs) > 0) }}.Roll(d)
	for i := range faults {
		if faults[i].Kind.Replaces { // nobody takes the place of other processes
			faults[i].Process = runs[faults[i].Process%len(runs)]
		}
	}
	return faults
}

func (x *exploration) inject(f world.Fault) {
	var args []any
	if f.Kind.Takes&world.OfProcess != 0 {
		args = append(args, "process", f.Process)
	}
	if f.Kind.Takes&world.OfMaster != 0 {
		args = append(args, "master", f.Master)
	}
	if f.Lasts > 0 {
		args = append(args, "for", f.Lasts)
	}
	x.masters.logger.Log(context.Background(), slog.LevelInfo, "quorumtest: "+f.Kind.Says, args...)
	x.masters.world.Inject(f)
}

// run makes the faults.
func (x *exploration) run() {
	d := rand.New(x.masters.world.Source("faults"))
	last := time.Duration(0) // until the last fault is over
	for range 1 + d.IntN(8) {
		pause := lasting(d)
		if last -= pause; !x.sleep(pause) {
			break
		}
		for _, f := range x.roll(d, false) {
			x.inject(f)
			last = max(last, f.Lasts)
		}
	}
	x.sleep(last)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.healed = true
	x.masters.world.Heal()
}

// sleep reports whether the test still runs.
func (x *exploration) sleep(d time.Duration) bool {
	select {
	case <-time.After(time.Until(world.FaultSlot.From(time.Now().Add(d)))):
		return true
	case <-x.over:
		return false
	}
}

// pause has a process stand still in every other call of Work, or so.
func (x *exploration) pause(p *process) {
	d := rand.New(x.masters.world.Source("pause", p.Number, int(time.Now().UnixNano())))
	if !x.pauses(d.IntN(2) == 0) {
		return
	}
	for _, f := range x.roll(d, true) {
		f.Process = p.Number
		x.inject(f)
	}
}

// pauses reports whether a call of Work pauses the process, which also hangs on a coin.
func (x *exploration) pauses(coin bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all.calls++
	if x.healed || !coin {
		return false
	}
	x.all.made++
	return true
}
