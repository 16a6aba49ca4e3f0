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

	"github.com/quorumlock/quorumlock/quorum"
)

var manyNames = flag.Int("fleet.names", 4000, "how many names TestManyNamesWait waits for")

// mostPolls bounds the polls of a process in a second, however many names it waits for: see docs/scale.md.
const mostPolls = 3000

// One process waits for thousands of names that another one holds. Its other locks, and those that become
// free, must come as fast as beside no waiters, and its polls must not keep the masters busy.
func TestManyNamesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]place{placeA, placeA, placeA, placeA, placeA}, commandTakes(t))
		defer w.end()
		if err := w.found(); err != nil {
			t.Fatal(err)
		}
		holder, waiter := mustOpen(t, w, "holder"), mustOpen(t, w, "waiter")
		defer holder.Close()
		defer waiter.Close()
		b := &beside{t: t, holder: holder, waiter: waiter}
		alone := b.measure()

		locks := b.hold(*manyNames)
		stop := b.wait(*manyNames)
		watched := time.Duration(*manyNames) * time.Second / 2000
		time.Sleep(watched) // by then, each has polled once
		before := w.done()
		time.Sleep(watched)
		asked := 0
		for i, m := range w.done() {
			asked += m.since(before[i]).acquires
		}
		polls := float64(asked) / float64(len(w.masters)) / watched.Seconds()
		busy := b.measure()
		text := waitersText(*manyNames, polls, alone, busy)
		t.Log(text)
		if *docs != "" {
			appendReport(t, text)
		}

		if polls > mostPolls {
			t.Errorf("%.0f polls per second, want at most %d", polls, mostPolls)
		}
		for _, c := range []struct {
			what        string
			busy, alone []time.Duration
		}{{"a free name", busy.pairs, alone.pairs}, {"a handoff", busy.handoffs, alone.handoffs}} {
			if got, most := part(c.busy, 0.99), 2*part(c.alone, 0.99); got > most {
				t.Errorf("beside %d names that wait, %s takes up to %v, want at most %v", *manyNames, c.what, got, most)
			}
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
func waitersText(names int, polls float64, alone, busy besides) string {
	return fmt.Sprintf(`
## One process waits for many names

Another process holds %d names, and one process waits for all of them, %v from five masters. It polls %.0f times
per second.

| | alone: p50 / p99 | beside the waiters |
|---|---|---|
| a free name is locked and unlocked | %s | %s |
| a name that is unlocked goes to its waiter | %s | %s |
`, names, inside, polls, quantiles(alone.pairs), quantiles(busy.pairs), quantiles(alone.handoffs),
		quantiles(busy.handoffs))
}

// appendReport adds to the report that TestFleet has written.
func appendReport(t *testing.T, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(*docs, "reports", "fleet.md"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, w *world, process string) *quorum.Locker {
	t.Helper()
	l, err := w.open(placeA, process+":1")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// beside is what is measured beside the names that wait.
type beside struct {
	t              *testing.T
	holder, waiter *quorum.Locker
}

type besides struct{ pairs, handoffs []time.Duration }

// measure locks and unlocks a free name, and waits for another one until its holder unlocks it.
func (b *beside) measure() (m besides) {
	ctx := context.Background()
	for range 200 {
		began := time.Now()
		b.mustUnlock(b.mustLock(b.waiter, "free"))
		m.pairs = append(m.pairs, time.Since(began))
		time.Sleep(7 * time.Millisecond) // not always at the same time as renewals
	}
	for i := range 100 {
		name := fmt.Sprint("handed off ", i)
		held := b.mustLock(b.holder, name)
		var got *quorum.Lock
		var at time.Time
		var waiting sync.WaitGroup
		waiting.Go(func() {
			got = b.mustLock(b.waiter, name)
			at = time.Now()
		})
		time.Sleep(300 * time.Millisecond) // refused, subscribed, and refused again
		began := time.Now()
		if err := held.Unlock(ctx); err != nil {
			b.t.Error(err)
		}
		waiting.Wait()
		m.handoffs = append(m.handoffs, at.Sub(began))
		b.mustUnlock(got)
	}
	return m
}

// hold locks that many names.
func (b *beside) hold(n int) []*quorum.Lock {
	locks := make([]*quorum.Lock, n)
	const callers = 256
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < n; i += callers {
				locks[i] = b.mustLock(b.holder, heldName(i))
			}
		})
	}
	all.Wait()
	return locks
}

func heldName(i int) string { return fmt.Sprint("held ", i) }

// wait makes the waiter wait for that many names at once.
func (b *beside) wait(n int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := b.waiter.Lock(ctx, heldName(i)); err == nil {
				b.t.Errorf("%q is held twice", heldName(i))
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (b *beside) mustLock(l *quorum.Locker, name string) *quorum.Lock {
	lock, err := l.Lock(context.Background(), name)
	if err != nil {
		b.t.Errorf("lock %q: %v", name, err)
		panic(err)
	}
	return lock
}

func (b *beside) mustUnlock(lock *quorum.Lock) {
	if err := lock.Unlock(context.Background()); err != nil {
		b.t.Error(err)
	}
}
