package quorum

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
)

var triesSeeds = flag.Int("quorum.tries", 1, "how often TestOneOfSimultaneousTriesWins plays each geometry")

// geometry is where k processes are, seen from n masters.
type geometry struct {
	name      string
	n         int
	rule      Rule
	k         int
	isWide    bool // the processes are in different places
	roundTrip func(process, master int) time.Duration
}

func geometries() (all []geometry) {
	const ms = time.Millisecond
	flat := func(rtt time.Duration) func(int, int) time.Duration {
		return func(int, int) time.Duration { return rtt }
	}
	for _, n := range []int{3, 5} {
		each := func(other time.Duration) func(process, master int) time.Duration {
			return func(process, master int) time.Duration {
				if process%n == master {
					return 0
				}
				return other
			}
		}
		for _, k := range []int{2, 3, 8, 32} {
			rules := []Rule{Majority, All}
			if k == 32 {
				rules = rules[:1]
			}
			if n == 5 && k != 3 && k != 8 {
				continue
			}
			for _, rule := range rules {
				add := func(name string, isWide bool, rtt func(int, int) time.Duration) {
					name = fmt.Sprintf("%d of %d, %d processes, %s", need(rule, n), n, k, name)
					all = append(all, geometry{name, n, rule, k, isWide, rtt})
				}
				add("in one place", false, flat(0))
				add("1 ms away", false, flat(ms))
				add("each next to one master, 10 ms from the others", true, each(10*ms))
				add("each next to one master, 80 ms from the others", true, each(80*ms))
				add("0, 30 and 80 ms away", true, func(process, master int) time.Duration {
					return []time.Duration{0, 30 * ms, 80 * ms}[(process+master)%3]
				})
			}
		}
	}
	return all
}

// Of the processes that try at once for a free name, exactly one gets it, wherever they are. The others' errors name it.
func TestOneOfSimultaneousTriesWins(t *testing.T) {
	type call func(l *Locker, ctx context.Context) (*Lock, error)
	try := func(l *Locker, ctx context.Context) (*Lock, error) { return l.TryLock(ctx, "a") }
	for _, g := range geometries() {
		t.Run(g.name, func(t *testing.T) {
			g.play(t, 1, try)
		})
	}
	for _, c := range []struct {
		name string
		wins int
		call call
	}{
		{"RWLock.TryLock", 1, func(l *Locker, ctx context.Context) (*Lock, error) { return l.RWLock("a").TryLock(ctx) }},
		{"TryAcquire of 1", 1, func(l *Locker, ctx context.Context) (*Lock, error) { return NewSemaphore(l, "a", 1).TryAcquire(ctx) }},
		{"TryAcquire of 3", 3, func(l *Locker, ctx context.Context) (*Lock, error) { return NewSemaphore(l, "a", 3).TryAcquire(ctx) }},
		{"WithWait(0)", 1, func(l *Locker, ctx context.Context) (*Lock, error) { return l.With(WithWait(0)).Lock(ctx, "a") }},
		{"two names", 1, func(l *Locker, ctx context.Context) (*Lock, error) { return l.TryLock(ctx, "b", "a") }},
	} {
		for _, g := range geometries() {
			if g.k != 8 || g.n == 5 || !g.isWide {
				continue
			}
			t.Run(c.name+", "+g.name, func(t *testing.T) { g.play(t, c.wins, c.call) })
		}
	}
}

// play has all processes call at once, a few times.
func (g geometry) play(t *testing.T, wins int, call func(*Locker, context.Context) (*Lock, error)) {
	for seed := range uint64(*triesSeeds) {
		synctest.Test(t, func(t *testing.T) {
			w := world.New(t, g.n)
			var all []*Locker
			for p := range g.k {
				all = append(all, g.process(t, w, p, seed))
			}
			time.Sleep(time.Second)
			type result struct {
				process int
				lock    *Lock
				err     error
			}
			results := make(chan result)
			for p, l := range all {
				go func() {
					lock, err := call(l, t.Context())
					results <- result{p, lock, err}
				}()
			}
			var won []*Lock
			var refused []result
			for range all {
				if r := <-results; r.lock != nil {
					won = append(won, r.lock)
				} else {
					refused = append(refused, r)
				}
			}
			testkit.Require(t, len(won) == min(wins, g.k),
				"%d of %d calls hold, want %d: %v", len(won), g.k, wins, refused[0].err)
			for _, r := range refused {
				var e *Error
				testkit.Check(t, errors.As(r.err, &e) && errors.Is(r.err, ErrHeld) && !errors.Is(r.err, ErrUnavailable), "%v", r.err)
				testkit.Check(t, wins != 1 || e.Holder == "" || e.Holder == won[0].Owner(),
					"process %d is told that %s holds, not %s", r.process, e.Holder, won[0].Owner())
			}
			for _, lock := range won {
				testkit.Must(t, lock.Unlock(t.Context()))
			}
			for _, l := range all {
				l.Close()
			}
		})
	}
}

// process is a locker with a clock and connections of its own.
func (g geometry) process(t *testing.T, w *world.World, p int, seed uint64) *Locker {
	process := w.NewProcess()
	for master := range w.Masters {
		process.Far(master, g.roundTrip(p, master)/2)
	}
	l, err := New(process.Nodes(node.WithoutQuarantine()), g.rule, withClock(w.Clock), withRand(rand.NewPCG(seed, uint64(p))))
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func need(rule Rule, n int) int {
	need, _ := rule(n)
	return need
}
