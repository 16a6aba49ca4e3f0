package shell

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
	"github.com/quorumlock/quorumlock/internal/steps"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts"
)

var (
	deep    = flag.Bool("model.deep", false, "search as far as it takes hours")
	stepped = flag.Bool("shell.stepped", false, "the binary's mutexes are steps")
)

// try locks once, works for a step, and unlocks.
func try(l int) func(*world) {
	return func(w *world) {
		if lock, err := w.lockers[l].TryLock(w.ctx(), "a"); err == nil {
			w.acquired(lock)
			steps.Step("works")
			lock.Unlock(w.ctx())
		}
	}
}

// take locks once, for good.
func take(l int) func(*world) {
	return func(w *world) {
		if lock, err := w.lockers[l].TryLock(w.ctx(), "a"); err == nil {
			w.acquired(lock)
		}
	}
}

// wait waits for the lock, and unlocks.
func wait(l int) func(*world) {
	return func(w *world) {
		lock, err := w.lockers[l].Lock(w.ctx(), "a")
		if err != nil {
			w.fail("a call that waits: %v", err)
			return
		}
		w.acquired(lock)
		steps.Step("works")
		lock.Unlock(w.ctx())
	}
}

// givesUp waits for the lock until its context is cancelled by another step.
func givesUp(l int) func(*world) {
	return func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx())
		go func() {
			steps.Step("the caller gives up")
			cancel()
		}()
		if lock, err := w.lockers[l].Lock(ctx, "a"); err == nil {
			w.acquired(lock)
			lock.Unlock(w.ctx())
		}
	}
}

func closes(l int) func(*world) { return func(w *world) { w.lockers[l].Close() } }

// got is the lock of a call before the steps, which must succeed.
func (w *world) got(lock *quorum.Lock, err error) *quorum.Lock {
	testkit.Must(w.t, err)
	return lock
}

// holds acquires the lock before the steps.
func holds(w *world) {
	w.acquired(w.got(w.lockers[0].TryLock(w.ctx(), "a")))
}

// reads acquires the lock as a reader before the steps.
func reads(w *world) {
	w.acquired(w.got(w.lockers[0].RWLock("a").RLock(w.ctx())))
}

// with does something with the lock that is held.
func with(do func(w *world, lock *quorum.Lock)) func(*world) {
	return func(w *world) { do(w, w.locks[0]) }
}

func unlock(w *world, lock *quorum.Lock) { lock.Unlock(w.ctx()) }

func extend(w *world, lock *quorum.Lock) {
	if lock.Extend(w.ctx(), lasts) == nil {
		w.confirmed("Extend", lock)
	}
}

func downgrade(w *world, lock *quorum.Lock) {
	if lock.Downgrade(w.ctx()) == nil {
		w.confirmed("Downgrade", lock)
	}
}

func reenter(w *world, lock *quorum.Lock) {
	if inner, err := w.lockers[0].TryLock(lock.Context(), "a"); err == nil {
		inner.Unlock(w.ctx())
	}
}

func handOver(w *world, lock *quorum.Lock) {
	ticket, err := lock.HandOver(w.ctx())
	if err != nil {
		return
	}
	if next, err := w.lockers[1].TakeOver(w.ctx(), ticket); err == nil {
		w.acquired(next)
		next.Unlock(w.ctx())
	}
}

// unlockKept unlocks a lock that no master loses.
func unlockKept(w *world, lock *quorum.Lock) {
	if err := lock.Unlock(w.ctx()); errors.Is(err, quorum.ErrLost) {
		w.fail("Unlock says that the lock was lost: %v", err)
	}
}

// handOverUncounted hands over, and deletes the token counters before it takes over.
func handOverUncounted(w *world, lock *quorum.Lock) {
	ticket, err := lock.HandOver(w.ctx())
	if err != nil {
		return
	}
	for _, m := range w.masters {
		for _, key := range m.Keys() {
			if strings.HasPrefix(key, scripts.Prefix+"counter:") {
				m.Set(key, "0")
			}
		}
	}
	if next, err := w.lockers[1].TakeOver(w.ctx(), ticket); err == nil {
		w.acquired(next)
	}
}

// forget makes masters forget everything.
func forget(masters ...int) func(*world) {
	return func(w *world) {
		for _, i := range masters {
			w.masters[i].Flush()
		}
	}
}

// restarts makes a new process of a master, with all its data, which refuses those commands.
func restarts(master int, refuses fakeredis.Refusals) func(*world) {
	return func(w *world) {
		m := w.masters[master]
		w.deaths[master].Add(1)
		m.Crash(fakeredis.Everything)
		m.Start()
		m.Refuse(refuses)
	}
}

// loses acquires the lock, and then a master dies, before the steps: the second locker knows.
func loses(master int) func(*world) {
	return func(w *world) {
		holds(w)
		w.masters[master].Crash(fakeredis.Everything)
		w.got(w.lockers[1].TryLock(w.ctx(), "b")).Unlock(w.ctx())
	}
}

// comesBack starts a master with all its data, and leaves the lockers time to notice.
func comesBack(master int) func(*world) {
	return func(w *world) {
		w.masters[master].Start()
		time.Sleep(5 * time.Second)
	}
}

// refuse has all masters refuse commands, after what comes before.
func refuse(r fakeredis.Refusals, before func(*world)) func(*world) {
	return func(w *world) {
		before(w)
		for _, m := range w.masters {
			m.Refuse(r)
		}
	}
}

// later does something when time has passed, after what else is done then.
func later(d time.Duration, do func(*world)) func(*world) {
	return func(w *world) {
		time.Sleep(d)
		steps.Step("then a call")
		do(w)
	}
}

// connects connects the first locker before the steps.
func connects(w *world) {
	w.got(w.lockers[0].TryLock(w.ctx(), "b")).Unlock(w.ctx())
}

// holdsSlot acquires the only slot of a semaphore before the steps.
func holdsSlot(w *world) {
	w.acquired(w.got(semaphore.New(w.lockers[0], "s", 1).TryAcquire(w.ctx())))
}

// waitSlot waits for that slot, and unlocks.
func waitSlot(l int) func(*world) {
	return func(w *world) {
		lock, err := semaphore.New(w.lockers[l], "s", 1).Acquire(w.ctx())
		if err != nil {
			w.fail("a call that waits: %v", err)
			return
		}
		w.acquired(lock)
		lock.Unlock(w.ctx())
	}
}

const renewal = lasts/3 + time.Millisecond

var scenarios = []scenario{
	{name: "two lockers", lockers: 2, tasks: []func(*world){try(0), try(1)}},
	{name: "a waiter behind a holder", lockers: 2, prepare: holds, tasks: []func(*world){with(unlock), wait(1)}},
	{name: "two waiters of a process, one gives up", lockers: 2, prepare: holds, tasks: []func(*world){with(unlock), wait(1), givesUp(1)}},
	{name: "an attempt and Close", tasks: []func(*world){take(0), closes(0)}, keeps: true},
	{name: "a caller gives up", lockers: 2, tasks: []func(*world){givesUp(0), try(1)}},
	{name: "Unlock and a renewal", prepare: holds, tasks: []func(*world){with(unlock)}, jumps: []time.Duration{renewal}},
	{name: "Unlock, Extend and a renewal", prepare: holds, tasks: []func(*world){with(unlock), with(extend)}, jumps: []time.Duration{renewal}},
	{name: "Unlock and a repair", prepare: holds, tasks: []func(*world){forget(0), with(unlock)}, jumps: []time.Duration{renewal}},
	{name: "a loss and Unlock", lockers: 2, opts: []quorum.Option{quorum.WithMaxHold(time.Second)}, prepare: holds,
		tasks: []func(*world){with(unlock), wait(1)}, jumps: []time.Duration{time.Second}},
	{name: "a hand-over and a renewal", lockers: 2, prepare: holds, tasks: []func(*world){with(handOver)}, jumps: []time.Duration{renewal}},
	{name: "a hand-over while a master is away", lockers: 2, prepare: loses(2), tasks: []func(*world){with(handOver), comesBack(2)}},
	{name: "Unlock and Close", prepare: holds, tasks: []func(*world){with(unlock), closes(0)}, keeps: true},
	{name: "re-entry and Unlock", prepare: holds, tasks: []func(*world){with(reenter), with(unlock)}},
	{name: "a downgrade and Unlock", prepare: holds, tasks: []func(*world){with(downgrade), with(unlock)}},
	{name: "a writer that reserves gives up", lockers: 2, prepare: reads, tasks: []func(*world){givesUp(1), with(unlock)}},
	{name: "a loss", large: true, lockers: 2, opts: []quorum.Option{quorum.WithMaxHold(time.Second)}, prepare: holds,
		tasks: []func(*world){wait(1)}, jumps: []time.Duration{time.Second}},
	{name: "the end of a lease", lockers: 2, opts: []quorum.Option{quorum.WithFixedLease(lasts)}, prepare: holds,
		tasks: []func(*world){with(unlock), wait(1)}, jumps: []time.Duration{lasts}},
	{name: "the end of a min hold", large: true, lockers: 2, opts: []quorum.Option{quorum.WithMinHold(time.Second)}, prepare: holds,
		tasks: []func(*world){with(unlock), wait(1)}, jumps: []time.Duration{time.Second}},
	{name: "a reader that its masters don't renew", lockers: 2, prepare: refuse(fakeredis.Refusals{Forbidden: "ZADD"}, reads),
		tasks: []func(*world){later(lasts+time.Second, try(1))}},
	{name: "a reader, and a writer that tries", lockers: 2, prepare: reads, tasks: []func(*world){try(1), with(unlock)}},
	{name: "a master restarts out of memory", prepare: connects, tasks: []func(*world){try(0), restarts(0, fakeredis.Refusals{Full: true})}},
	{name: "masters restart while a lock is released", prepare: holds,
		tasks: []func(*world){with(unlockKept), restarts(0, fakeredis.Refusals{}), restarts(1, fakeredis.Refusals{})}},
	{name: "a hand-over whose counters are deleted", lockers: 2, prepare: holds, tasks: []func(*world){with(handOverUncounted)}},
	{name: "a waiter behind the holder of a slot", lockers: 2, opts: []quorum.Option{quorum.WithWait(5 * time.Second)}, prepare: holdsSlot,
		tasks: []func(*world){with(unlock), waitSlot(1)}},
}

// report is what a search has found.
type report struct {
	runs, longest int
	whole         bool // it has played every order within the bound
	trace         []choice
	wrong         []string
}

func (r report) String() string {
	text := fmt.Sprintf("%d orders of up to %d steps", r.runs, r.longest)
	if !r.whole {
		text += ", then it was stopped"
	}
	if len(r.wrong) > 0 {
		text += fmt.Sprintf(", violated after %d steps: %s", len(r.trace), strings.Join(r.wrong, "; "))
		for _, c := range r.trace {
			text += fmt.Sprintf("\n  %d of %d: %s", c.picked, c.of, c.label)
		}
	}
	return text
}

// search plays the scenario in every order that differs from the usual one in bound places at most, most orders at most.
func (s scenario) search(t *testing.T, bound, most int) (r report) {
	for picked := []int{}; picked != nil && r.runs < most && r.wrong == nil; {
		picked = next(r.play(t, s, picked), bound)
		r.whole = picked == nil
	}
	return r
}

// sample plays more orders, which differ from the usual one in bound places, drawn by chance.
func (r *report) sample(t *testing.T, s scenario, bound, orders int) {
	random := rand.New(rand.NewPCG(1, uint64(len(s.name))))
	for range orders {
		if r.wrong != nil {
			return
		}
		picked := make([]int, max(r.longest, 1))
		for range bound {
			picked[random.IntN(len(picked))] += 1 + random.IntN(3)
		}
		r.play(t, s, picked)
	}
}

// play plays one order.
func (r *report) play(t *testing.T, s scenario, picked []int) []choice {
	all, wrong := s.run(t, picked)
	r.runs++
	r.longest = max(r.longest, len(all))
	if len(wrong) > 0 {
		r.trace, r.wrong = all, wrong
	}
	return all
}

// next returns the first steps of the next order, nil for none.
func next(all []choice, bound int) []int {
	spent := 0
	for _, c := range all {
		spent += min(c.picked, 1)
	}
	for i := len(all) - 1; i >= 0; i-- {
		spent -= min(all[i].picked, 1)
		if c := all[i]; c.picked+1 < c.of && spent < bound {
			var picked []int
			for _, before := range all[:i] {
				picked = append(picked, before.picked)
			}
			return append(picked, c.picked+1)
		}
	}
	return nil
}

// TestSearch plays the scenarios on the shipped code, and with -model.deep in many more orders than find any mutant.
func TestSearch(t *testing.T) {
	if !*stepped {
		run := mutate.Stepped(t, mutants, steppedFiles, more)
		if !*deep {
			run(t, "TestSearch", "-shell.stepped")
			return
		}
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				run(t, "TestSearch/^"+s.name+"$", "-shell.stepped", "-model.deep")
			})
		}
		return
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			r := seek(t, s.name, 60)
			if *deep {
				r = s.search(t, 2, 150_000) // bound 3 takes 50 times as long: most of a day
				testkit.Check(t, r.whole || s.large, "stopped after %d orders", r.runs)
				r.sample(t, s, 6, 10_000)
			}
			t.Log(r)
			if len(r.wrong) > 0 {
				t.Fail()
			}
		})
	}
}

// Every mutex of these packages is a step. Other packages' are held for a moment, in which nothing waits. Every invariant
// of a field is checked.
func TestEveryMutexOfTheShellIsAStep(t *testing.T) {
	for _, dir := range []string{"quorum/internal/engine", "quorum/internal/queue", "quorum/internal/schedule"} {
		files, err := filepath.Glob("../../../" + dir + "/*.go")
		testkit.Require(t, err == nil && len(files) != 0, "%s: %v", dir, err)
		for _, file := range files {
			text, name := testkit.Read(t, file), dir+"/"+filepath.Base(file)
			testkit.Check(t, !strings.Contains(text, "sync.Mutex") || strings.HasSuffix(name, "_test.go") ||
				slices.Contains(steppedFiles, name), "%s has a mutex, and is not among steppedFiles", name)
			n, checked := strings.Count(text, "Invariant: "), strings.Count(more[name], `":`)
			testkit.Check(t, n == checked, "%s states %d invariants, and %d are checked: see more, and testdata", name, n, checked)
		}
	}
}

// more is what the search needs of a lock, and users don't.
var more = map[string]string{
	"quorum/lock.go":                 "\nfunc (l *Lock) Check() error { return l.handle.Hold().Check() }\n",
	"quorum/internal/engine/hold.go": holdCheck,
}

//go:embed testdata/hold.txt
var holdCheck string

func init() {
	text, err := os.ReadFile("../../internal/lease/export_test.go")
	if err != nil {
		panic(err)
	}
	more["quorum/internal/lease/check.go"] = string(text)
}

// steppedFiles have the mutexes whose sections are steps. The roster's is locked while a goroutine is started.
var steppedFiles = []string{"quorum/internal/engine/hold.go", "quorum/internal/engine/tally.go", "quorum/internal/engine/engine.go",
	"quorum/internal/schedule/schedule.go", "quorum/internal/queue/queue.go",
	"quorum/internal/roster/roster.go", "internal/pubsub/state.go"}
