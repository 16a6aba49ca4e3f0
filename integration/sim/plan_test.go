package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/scene"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/scripts"
)

// plan is everything that a seed decides. Its times are the bubble's, since the run began.
type plan struct {
	seed uint64
	test string // that plays it

	masters, clients, flows int // flows of each client
	all                     bool
	names                   []string
	lease, timeout          time.Duration
	unit                    time.Duration // of clients' actions and of faults: the lease, or a fraction of a long one
	conns                   int
	noQuarantine            bool
	ahead                   bool    // token counters are above all clients' clocks, and must not be lost
	fixed                   float64 // the share of locks that are not renewed
	longest, rest           float64 // hold, and average pause between two, in units
	masterRate, clientRate  []float64

	weather       world.Weather
	faults        []world.Fault
	healed, bound time.Duration // when faults end, and how long after that each flow must have had its locks
	handsOver     bool          // by newHandOverPlan: holders hand their locks over
	reads         float64       // the share of calls that are a reader's
	slots         int           // of the semaphore that the flows contend for; 0: they lock names
	lists         *listPlan     // the clients' lists of masters, and who changes them; nil: all masters, for ever
}

// drift is the largest error of a clock, each way. Two clocks then differ by no more than a lease
// allows for.
const drift = 0.005

// rng returns the random numbers for one purpose. They do not depend on draws for other purposes.
func (p *plan) rng(purpose string, keys ...any) *rand.Rand {
	return rand.New(world.Source(p.seed, purpose, keys...))
}

// timeoutOf is a node's timeout. No two are the same, so no two nodes give up at one instant.
func (p *plan) timeoutOf(master int) time.Duration {
	return p.timeout + time.Duration(master)*17*time.Microsecond
}

// newPlan makes the plan of a seed, with every clock within the drift allowance.
func newPlan(seed uint64) *plan {
	p := &plan{seed: seed, test: "TestSeeds"}
	d := p.rng("plan")
	p.masters = 3 + 2*d.IntN(2)
	p.clients, p.flows = 2+d.IntN(3), 1+d.IntN(2)
	p.draw(d)
	return p
}

// newCrowdPlan makes a plan of few clients with many flows and slow sockets: requests gather, and
// share runs of a script.
func newCrowdPlan(seed uint64) *plan {
	p := &plan{seed: seed, test: "TestCrowds"}
	d := p.rng("crowd")
	p.masters, p.clients, p.flows = 3, 2, 5
	p.draw(d)
	p.names = []string{"a", "b", "c", "d", "e", "f"}[:2+d.IntN(5)]
	p.conns, p.rest = 1, pick(d, 0.005, 0.02)
	p.longest = pick(d, 0.02, 0.3)
	p.timeout = max(p.timeout, 90*time.Millisecond)
	p.weather.Gather = p.timeout / time.Duration(30+d.IntN(60)) // a handshake takes about ten writes
	return p
}

// newSemaphorePlan makes a plan in which the flows contend for the slots of a semaphore. Each slot is a
// name for the judge.
func newSemaphorePlan(seed uint64) *plan {
	p := &plan{seed: seed, test: "TestSemaphores"}
	d := p.rng("semaphore")
	p.masters = 3 + 2*d.IntN(2)
	p.clients, p.flows = 3+d.IntN(2), 1+d.IntN(2)
	p.draw(d)
	p.slots, p.names = 1+d.IntN(3), nil
	for slot := range p.slots {
		p.names = append(p.names, scripts.SlotName(semaphoreName, slot))
	}
	return p
}

// draw draws the rest of the plan, for its numbers of masters, clients and flows.
func (p *plan) draw(d *rand.Rand) {
	p.all = d.IntN(5) == 0
	p.names = []string{"gh", "ne", "a"}[:pick(d, 1, 1, 2, 3)] // the first two share a token counter
	p.lease = time.Duration(300+d.IntN(8)*100) * time.Millisecond
	p.unit = p.lease
	if d.IntN(5) == 0 { // a key that is left behind then stays for long
		p.lease *= 8
	}
	p.timeout = time.Duration(float64(p.unit) * (0.06 + 0.25*d.Float64())).Truncate(time.Millisecond)
	if d.IntN(4) == 0 { // a lease may end while an attempt still waits
		p.timeout *= 5
	}
	p.conns = pick(d, 1, 1, 2)
	p.fixed = pick(d, 0, 0.2, 0.5, 1)
	p.longest = pick(d, 0.3, 1, 2.5)
	p.rest = pick(d, 0.02, 0.1, 0.5)
	for range p.masters {
		p.masterRate = append(p.masterRate, 1+drift*(2*d.Float64()-1))
	}
	for range p.clients {
		p.clientRate = append(p.clientRate, 1+drift*(2*d.Float64()-1))
	}
	if d.IntN(3) == 0 { // the worst case within the allowance
		p.masterRate[0], p.clientRate[0] = 1+drift, 1-drift
	}

	p.weather.Latency = time.Duration((0.1 + 3*d.Float64()*d.Float64()) * float64(time.Millisecond))
	p.weather.Slow = pick(d, 0, 0.01, 0.05, 0.2)
	p.weather.Slowest = time.Duration(0.9 * float64(p.unit) * d.Float64())
	p.weather.Loss = pick(d, 0, 0.005, 0.02)
	p.healed = p.lease + 8*time.Second // the first max lease is quarantine: no lock can be lost in it
	p.setBound()
	p.ahead = d.IntN(4) == 0
	dice := world.Dice{Masters: p.masters, Processes: p.clients,
		Lasts: func(d *rand.Rand) time.Duration { return time.Duration(d.ExpFloat64() * 0.7 * float64(p.unit)) },
		Allow: func(k *world.Kind) bool { return !p.ahead || !k.Forgets }}
	for n := pick(d, 0, 4, 10, 20, 40); n > 0; n-- {
		at := p.lease + time.Duration(d.Float64()*float64(p.healed-p.lease))
		for _, f := range dice.Roll(d) {
			f.At = at
			p.faults = append(p.faults, f)
		}
	}
}

// setBound sets how long a flow may wait once all faults have ended. Killed clients leave their locks to the lease. Each of
// the others may still hold its lock, or wait for one, in turn.
func (p *plan) setBound() {
	p.bound = 2*p.lease + time.Second + time.Duration(float64(p.clients*p.flows)*(p.longest+0.5)*float64(p.unit))
}

func pick[T any](d *rand.Rand, of ...T) T { return of[d.IntN(len(of))] }

func (p *plan) String() string {
	rule := "majority"
	if p.all {
		rule = "all"
	}
	return fmt.Sprintf("seed %d%v: %s of %d masters, %d clients with %d flows, names %v, lease %v, timeout %v, "+
		"%d connections, latency %v, slow %v up to %v, loss %v, rates of masters %.4f, of clients %.4f",
		p.seed, p.lists, rule, p.masters, p.clients, p.flows, p.names, p.lease, p.timeout,
		p.conns, p.weather.Latency, p.weather.Slow, p.weather.Slowest, p.weather.Loss, p.masterRate, p.clientRate)
}

// dishonest reports whether two clients may hold at once: by clocks beyond the allowance, or by
// masters that forgot and are trusted.
func (p *plan) dishonest() bool {
	off := func(rate float64) bool { return rate < 1-drift || rate > 1+drift }
	return p.noQuarantine || slices.ContainsFunc(p.masterRate, off) || slices.ContainsFunc(p.clientRate, off)
}

// calm reports that a client notices nothing of any fault.
func (p *plan) calm() bool {
	noticed := func(f world.Fault) bool { return !f.Kind.Unnoticed }
	return p.weather.Slow == 0 && p.weather.Loss == 0 && p.lists == nil && !slices.ContainsFunc(p.faults, noticed)
}

// An entry of world.Kinds is all that a fault needs: plans and quorumtest.Explore draw it, and a scene names it. So does one that
// is added here.
func TestEachUserPlaysEachKind(t *testing.T) {
	before := world.Kinds
	defer func() { world.Kinds = before }()
	added := &world.Kind{Name: "moon", Says: "a master's data is what it was at the full moon", Takes: world.OfMaster | world.Lasts,
		Weight: 0.1, Forgets: true, Start: func(w *world.World, f world.Fault) func() {
			return func() { w.Masters[f.Master].Crash(fakeredis.LastSave); w.Masters[f.Master].Start() }
		}}
	for _, k := range append(slices.Clone(before), added) {
		var begun atomic.Int64
		counted := *k
		counted.Start = func(w *world.World, f world.Fault) func() { begun.Add(1); return k.Start(w, f) }
		world.Kinds = []*world.Kind{&counted}
		for user, play := range map[string]func(t *testing.T, k *world.Kind){
			"simulation": simulates, "Explore": explores, "scene": hasScene,
		} {
			t.Run(fmt.Sprint(k.Name, ", ", user), func(t *testing.T) {
				begun.Store(0)
				t.Run("plays", func(t *testing.T) { play(t, &counted) }) // which may be parallel
				none := k.Replaces && user != "simulation"               // nothing starts another process there
				testkit.Check(t, begun.Load() > 0 != none, "%d were played", begun.Load())
			})
		}
	}
}

// simulates judges the first plan with faults.
func simulates(t *testing.T, _ *world.Kind) {
	p := newPlan(1)
	for len(p.faults) == 0 {
		p = newPlan(p.seed + 1)
	}
	judge(t, p)
}

func explores(t *testing.T, _ *world.Kind) {
	quorumtest.Explore(t, 2, func(t *testing.T, masters *quorumtest.Masters) {
		locker := masters.Locker()
		for range 20 {
			if lock, err := locker.TryLock(t.Context(), "a"); err == nil {
				masters.Work(locker, time.Second)
				lock.Unlock(t.Context())
			}
			masters.Work(locker, 10*time.Second)
		}
	})
}

// hasScene plays a scene with the line of a fault.
func hasScene(t *testing.T, k *world.Kind) {
	if k.Replaces {
		return
	}
	f := world.Fault{Kind: k}
	if k.Takes&world.Lasts != 0 {
		f.Lasts = 10 * time.Second
	}
	file := filepath.Join(t.TempDir(), "fault.txt")
	text := fmt.Sprintf("masters 3\nprocess A\n%s\npass 20s\n----\n\n", f)
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	scene.Run(t, file, nil)
}
