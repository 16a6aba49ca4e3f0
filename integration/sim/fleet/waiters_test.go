package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
)

var manyNames = flag.Int("fleet.names", 1000, "how many names TestManyNamesWait waits for")

// mostPolls bounds the polls of a process in a second, however many names it waits for: see docs/scale.md.
const mostPolls = 3000

// One process waits for thousands of names that another one holds. Its other locks, and those that become
// free, must come as fast as alongside no waiters, and its polls must not keep the masters busy.
func TestManyNamesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]region{regionA, regionA, regionA, regionA, regionA}, commandTakes(t))
		defer w.end()
		testkit.Must(t, w.found())
		var often []quorum.Option
		if *manyNames < 4000 { // Without a bound, 1,000 names would poll 5,000 times per second like this, else 1,300 times.
			often = append(often, quorum.WithRetry(10*time.Millisecond, 50*time.Millisecond))
		}
		holder, waiter := mustOpen(t, w, "holder"), mustOpen(t, w, "waiter", often...)
		defer holder.Close()
		defer waiter.Close()
		p := &twoProcesses{t: t, holder: holder, waiter: waiter}
		alone := p.measure()

		locks := p.hold(*manyNames)
		stop := p.wait(*manyNames)
		watched := time.Duration(*manyNames) * time.Second / 2000
		time.Sleep(watched) // by then, each has polled once
		before := w.done()
		time.Sleep(watched)
		asked := 0
		for i, m := range w.done() {
			asked += m.since(before[i]).acquires
		}
		polls := float64(asked) / float64(len(w.masters)) / watched.Seconds()
		busy := p.measure()
		text := waitersText(*manyNames, polls, alone, busy)
		t.Log(text)
		if *docs != "" {
			appendReport(t, text)
		}

		testkit.Check(t, polls <= mostPolls, "%.0f polls per second, want at most %d", polls, mostPolls)
		for _, c := range []struct {
			what        string
			busy, alone []time.Duration
		}{{"a free name", busy.pairs, alone.pairs}, {"a handoff", busy.handoffs, alone.handoffs}} {
			got, most := quantile(c.busy, 0.99), 2*quantile(c.alone, 0.99)
			testkit.Check(t, got <= most, "while %d names wait, %s takes up to %v, want at most %v", *manyNames, c.what, got, most)
		}
		stop()
		for _, lock := range locks {
			if lock.Err() != nil {
				t.Fatalf("%v was lost: %v", lock.Names(), lock.Err())
			}
		}
	})
}

// waitersText is a part of docs/reports/fleet.md.
func waitersText(names int, polls float64, alone, busy timings) string {
	return fmt.Sprintf(`
## One process waits for many names

Another process holds %d names, and one process waits for all of them, %v from five masters. It polls %.0f times
per second.

| | alone: p50 / p99 | with the waiters |
|---|---|---|
| a free name is locked and unlocked | %s | %s |
| a name that is unlocked goes to its waiter | %s | %s |
`, names, inside, polls, p50p99(alone.pairs), p50p99(busy.pairs), p50p99(alone.handoffs),
		p50p99(busy.handoffs))
}

// appendReport adds to the report that TestFleet has written.
func appendReport(t *testing.T, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(*docs, "reports", "fleet.md"), os.O_APPEND|os.O_WRONLY, 0o644)
	testkit.Must(t, err)
	defer file.Close()
	_, err = file.WriteString(text)
	testkit.Must(t, err)
}

func mustOpen(t *testing.T, w *world, process string, opts ...quorum.Option) *quorum.Locker {
	t.Helper()
	l, err := w.open(regionA, process+":1", opts...)
	testkit.Must(t, err)
	return l
}

// twoProcesses are one that holds names and one that waits for them.
type twoProcesses struct {
	t              *testing.T
	holder, waiter *quorum.Locker
}

// timings are what calls took that do not wait for those names.
type timings struct{ pairs, handoffs []time.Duration }

// measure locks and unlocks a free name, and waits for another one until its holder unlocks it.
func (p *twoProcesses) measure() (m timings) {
	ctx, handoffs := context.Background(), 25
	if *docs != "" {
		handoffs = 100
	}
	for range 2 * handoffs {
		began := time.Now()
		p.mustUnlock(p.mustLock(p.waiter, "free"))
		m.pairs = append(m.pairs, time.Since(began))
		time.Sleep(7 * time.Millisecond) // not always at the same time as renewals
	}
	for i := range handoffs {
		name := fmt.Sprint("handed off ", i)
		held := p.mustLock(p.holder, name)
		var got *quorum.Lock
		var at time.Time
		var waiting sync.WaitGroup
		waiting.Go(func() {
			got = p.mustLock(p.waiter, name)
			at = time.Now()
		})
		time.Sleep(300 * time.Millisecond) // refused, subscribed, and refused again
		began := time.Now()
		testkit.Is(p.t, held.Unlock(ctx), nil, "Unlock")
		waiting.Wait()
		m.handoffs = append(m.handoffs, at.Sub(began))
		p.mustUnlock(got)
	}
	return m
}

// hold locks that many names.
func (p *twoProcesses) hold(n int) []*quorum.Lock {
	locks := make([]*quorum.Lock, n)
	const callers = 256
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < n; i += callers {
				locks[i] = p.mustLock(p.holder, heldName(i))
			}
		})
	}
	all.Wait()
	return locks
}

func heldName(i int) string { return fmt.Sprint("held ", i) }

// wait makes the waiter wait for that many names at once.
func (p *twoProcesses) wait(n int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			_, err := p.waiter.Lock(ctx, heldName(i))
			testkit.Check(p.t, err != nil, "%q is held twice", heldName(i))
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (p *twoProcesses) mustLock(l *quorum.Locker, name string) *quorum.Lock {
	lock, err := l.Lock(context.Background(), name)
	if err != nil {
		p.t.Errorf("lock %q: %v", name, err)
		panic(err)
	}
	return lock
}

func (p *twoProcesses) mustUnlock(lock *quorum.Lock) {
	testkit.Is(p.t, lock.Unlock(context.Background()), nil, "Unlock")
}

// A slot costs what a lock costs, if there is no contention.
func TestASlotCostsALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]region{regionA, regionA, regionA}, commandTakes(t))
		defer w.end()
		testkit.Must(t, w.found())
		locker := mustOpen(t, w, "one")
		defer locker.Close()
		semaphore := locker.Semaphore("s", 4)
		took := func(take func() (*quorum.Lock, error)) time.Duration {
			began := time.Now()
			for range 100 {
				held, err := take()
				testkit.Must(t, err)
				testkit.Must(t, held.Unlock(t.Context()))
			}
			return time.Since(began)
		}
		locks := took(func() (*quorum.Lock, error) { return locker.Lock(t.Context(), "k") })
		slots := took(func() (*quorum.Lock, error) { return semaphore.Acquire(t.Context()) })
		t.Logf("100 pairs of a lock %v, of a slot %v", locks, slots)
		testkit.Check(t, 4*slots <= 5*locks, "100 pairs of a slot take %v, of a lock %v", slots, locks)
	})
}
