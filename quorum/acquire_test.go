package quorum

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// mustBegin begins an attempt of the call.
func mustBegin(t *testing.T, p *queue.Place) {
	t.Helper()
	_, due := p.Next(t.Context())
	testkit.Require(t, due, "no attempt is due")
}

// The last waiter leaves nothing behind: no queue, subscription, connection for messages, goroutine
// or timer.
func TestQueueLeavesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(c.process(), "a")
		l.TryLock(t.Context(), "a")
		time.Sleep(time.Second)
		synctest.Wait()
		before := countGoroutines()
		results := make(chan lockResult, 20)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			names := []string{"a", "b", "c"}[:1+i%3]
			startWaiter(ctx, l, i, results, names...)
		}
		testkit.Equal(t, c.subscriptions("a"), 3, "connections that subscribe for 20 waiters")
		testkit.Equal(t, queuesOf(l), 3, "queues for three sets of names")
		cancel()
		for range 20 {
			<-results
		}
		synctest.Wait()
		c.wantNoQueues(l)
		testkit.Equal(t, c.subscriptions("a")+c.subscriptions("b")+c.subscriptions("c"), 0, "subscriptions are left")
		time.Sleep(time.Second) // the connection for messages lingers
		synctest.Wait()
		after := countGoroutines()
		testkit.Check(t, after <= before, "%d goroutines before, %d after", before, after)
		c.unlock(held)
	})
}

// countGoroutines counts the goroutines that run. runtime.NumGoroutine includes those that have
// just ended.
func countGoroutines() int {
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "\ngoroutine ")
}

// The error of a call that gives up reports another owner only if an attempt has found one.
func TestQueueErrorOfACallThatGivesUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		results := make(chan lockResult, 1)

		// An attempt is under way without an answer.
		crash(c.Masters, fakeredis.Everything)
		asking := l.joins()
		mustBegin(t, asking)
		ctx := testkit.Within(t, shortly)
		startWaiter(ctx, l, 0, results, "a")
		wantError(t, c.next(results, 2*shortly).err, not{ErrHeld}, ErrUnavailable, ErrNotAcquired, context.DeadlineExceeded)
		asking.Leave()
		startAll(c, 5*time.Second)

		// The nodes failed, and then another waiter of this process acquired the lock.
		first, behind := l.joins(), l.joins()
		mustBegin(t, first)
		unavailable := &Error{causes: []error{ErrNotAcquired, ErrUnavailable}}
		first.Refused(waiting.Result{Wait: -1}, waiting.AskAll, unavailable)
		one, _ := l.attempts(t.Context(), waiting.AskAll, "a")
		first.Acquired(DefaultLease, false)
		// another waiter has acquired the lock
		wantError(t, one.gaveUp(t.Context(), behind.LastError()), ErrHeld, not{ErrUnavailable})
		behind.Leave()
		c.unlock(one.lock)
		c.wantNoQueues(l)
	})
}

// The error of a call that gives up has what all nodes said rather than what the probe node said, unless nodes
// have failed since.
func TestQueueTellsWhatAllNodesSaid(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		w := c.process().joins()
		defer w.Leave()
		var want *Error
		for _, attempt := range []struct {
			approach waiting.Approach
			held     bool
			told     bool
		}{
			{waiting.ProbeFirst, true, true}, // nothing else is known
			{waiting.AskAll, true, true},
			{waiting.ProbeFirst, true, false},
			{waiting.ProbeFirst, false, true},
			{waiting.AskAll, true, true},
		} {
			said := &Error{}
			if attempt.told {
				want = said
			}
			w.Refused(waiting.Result{Held: attempt.held, Wait: -1}, attempt.approach, said)
			testkit.Check(t, w.LastError() == want, "after %+v another error is told", attempt)
		}
	})
}

// A node that is closed for good, one of three, does not end the waiting.
func TestQueueGoesOnWithoutAClosedNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, held, results := c.process(), c.lock(c.process(), "a"), make(chan lockResult, 1)
		l.engine.Nodes[0].Close()
		startWaiter(t.Context(), l, 0, results, "a")
		time.Sleep(time.Second)
		c.wantNone(results, "during the hold")
		c.unlock(held)
		c.unlock(c.nextLock(results, aPoll))
	})
}

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
