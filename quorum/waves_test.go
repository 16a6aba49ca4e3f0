package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// asksQuorumFirst has every attempt of the locker ask a quorum first, if its approach allows it: the
// locker is busy, and has compared the nodes.
func asksQuorumFirst(l *Locker) *Locker {
	l.core.openAttempts.Store(busyFrom)
	l.core.rtt.MustCompare(l.core.clock.Now().Add(time.Hour))
	return l
}

// firstNode returns the node with which attempts at the names begin.
func firstNode(l *Locker, names ...string) int { return l.core.order(nil, names, false)[0] }

// firstWave returns the nodes of the first wave for the name "a", and the third one.
func firstWave(l *Locker) (wave [2]int, third int) {
	first := firstNode(l, "a")
	return [2]int{first, (first + 1) % 3}, (first + 2) % 3
}

// A name that another owner holds on the whole first wave is held: no other node is asked, so none
// grants what would have to be released.
func TestARefusalByTheFirstWaveAsksNoOtherNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var told AttemptEvent
		hooks := Hooks{Attempt: func(_ context.Context, e AttemptEvent) { told = e }}
		l := asksQuorumFirst(c.process(WithHooks(hooks)))
		wave, third := firstWave(l)
		c.rivalHas(l.With(WithLease(5*time.Second)), wave[0])
		c.rivalHas(l.With(WithLease(10*time.Second)), wave[1])
		c.notAsked(third)
		_, err := l.TryLock(t.Context(), "a")
		var failed *Error
		if !errors.As(err, &failed) || !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		if failed.Refused != 2 || failed.Unknown != 1 || !strings.Contains(err.Error(), "2 refused, 1 not asked") {
			t.Errorf("%+v", failed)
		}
		if told.Refused != 2 || told.Unknown != 1 {
			t.Errorf("%+v", told)
		}
		// The third master may grant: the other one is needed when the shorter lease is over.
		_, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.QuorumFirst)
		if r == nil || r.Wait != 5*time.Second {
			t.Errorf("%+v", r)
		}
		time.Sleep(2 * waiting.MaxStep) // an attempt that has ended has no second wave
		c.before(third, func() {})
	})
}

// One node of the first wave has another owner, or is in the way otherwise. The lock is acquired
// all the same, without waiting for the second wave's time.
func TestAnotherNodeStandsInForOneOfTheFirstWave(t *testing.T) {
	for what, spoil := range map[string]func(c *cluster, l *Locker, node int){
		"it refuses": func(c *cluster, l *Locker, node int) { c.rivalHas(l, node) },
		"it is down": func(c *cluster, l *Locker, node int) {
			c.masters[node].Crash(fakeredis.Everything)
			inside.Of(l.core.nodes[node]).Pipe("a").Do(c.t.Context(), scripts.Look())
		},
		"it dies meanwhile": func(c *cluster, _ *Locker, node int) { c.masters[node].Crash(fakeredis.Everything) },
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				l := asksQuorumFirst(c.process())
				wave, _ := firstWave(l)
				spoil(c, l, wave[1])
				began := time.Now()
				held, err := l.TryLock(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took >= 2*waiting.MinStep {
					t.Errorf("it took %v", took)
				}
				held.Unlock(t.Context())
			})
		})
	}
}

// A frozen node of the first wave delays an attempt by two steps. Further attempts ask it last.
func TestAFrozenNodeOfTheFirstWaveIsAskedLast(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.unlock(c.lock(l, "a")) // all nodes answer at once
		asksQuorumFirst(l)
		wave, _ := firstWave(l)
		frozen := make(chan struct{})
		c.before(wave[0], func() { <-frozen })
		var took []time.Duration
		for range 6 {
			began := time.Now()
			held, err := l.TryLock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
			held.Unlock(t.Context())
		}
		if took[0] > 2*waiting.MaxStep || took[5] >= 2*waiting.MinStep {
			t.Errorf("attempts took %v", took)
		}
		close(frozen)
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// Only a busy locker asks a quorum first, and not with all of its attempts.
func TestOnlyABusyLockerAsksAQuorumFirst(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		asks := func(what string, want int64) {
			t.Helper()
			calls := c.calls.Load()
			lock := c.lock(l, "a")
			synctest.Wait()
			calls = c.calls.Load() - calls
			c.unlock(lock)
			synctest.Wait()
			if calls != want {
				t.Errorf("%s asks %d nodes, want %d", what, calls, want)
			}
		}
		asks("the first attempt, which compares the nodes,", 3)
		l.core.openAttempts.Add(busyFrom - 2)
		asks("one attempt too few", 3)
		l.core.openAttempts.Add(1)
		asks("a busy locker", 2)
		time.Sleep(waiting.CompareEvery)
		asks("an attempt that compares the nodes again", 3)
		asks("the next one", 2)
	})
}

// An attempt that must ask all nodes does so however busy the locker is.
func TestAskAllAsksAllNodes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		calls := c.calls.Load()
		lock, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.AskAll)
		if lock == nil {
			t.Fatal(r.err)
		}
		synctest.Wait()
		if n := c.calls.Load() - calls; n != 3 {
			t.Errorf("%d calls", n)
		}
		c.unlock(lock)
	})
}

// If every node is needed, all are asked.
func TestAllNodesAreAskedWhereAllAreNeeded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		l.core.need, l.set.terms.Need = 3, 3
		calls := c.calls.Load()
		held := c.lock(l, "a")
		if n := c.calls.Load() - calls; n != 3 {
			t.Errorf("%d calls", n)
		}
		c.unlock(held)
	})
}

// A slow node is asked last, but it is asked.
func TestASlowNodeIsAsked(t *testing.T) {
	for _, approach := range []waiting.Approach{waiting.AskAll, waiting.QuorumFirst, waiting.ProbeFirst} {
		inCluster(t, func(t *testing.T, c *cluster) {
			l := asksQuorumFirst(c.process())
			wave, third := firstWave(l)
			l.core.rtt.Observe(wave[1], time.Second)
			l.core.rtt.Observe(wave[0], time.Microsecond)
			l.core.rtt.Observe(third, time.Microsecond)
			lock, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, approach)
			if lock == nil {
				t.Fatal(r.err)
			}
			if approach == waiting.QuorumFirst && c.owners(l)[wave[1]] != "" {
				t.Error("the slow node is in the first wave")
			}
			time.Sleep(2 * waiting.MaxStep)
			if owner := c.owners(l)[wave[1]]; owner != lock.Owner() {
				t.Errorf("approach %d: the slow node has %q", approach, owner)
			}
			c.unlock(lock)
		})
	}
}

// The rtt takes the answers of probe nodes and of attempts that compare all nodes: not those of
// second waves, of nodes that stand in for others, and of further attempts, which were asked later
// or in other company.
func TestWhichAnswersTheRTTTakes(t *testing.T) {
	const answer = 100 * time.Microsecond // the time of one, in this test
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		for i := range c.masters {
			c.before(i, func() { time.Sleep(answer) })
		}
		due := true // a comparison
		takes := func(what string, approach waiting.Approach, first, second, last time.Duration) {
			t.Helper()
			l.core.rtt = waiting.NewRTT(3)
			if !due {
				l.core.rtt.MustCompare(l.core.clock.Now().Add(time.Hour))
			}
			lock, _ := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, approach)
			time.Sleep(2 * waiting.MaxStep)
			for i, want := range map[int]time.Duration{wave[0]: first, wave[1]: second, third: last} {
				if got := l.core.rtt.Mean(i); got != want {
					t.Errorf("%s: node %d of the order: %v, want %v", what, (i-wave[0]+3)%3, got, want)
				}
			}
			if lock != nil {
				c.unlock(lock)
			}
			synctest.Wait()
		}
		takes("a probe, although a comparison is due", waiting.ProbeFirst, answer, 0, 0)
		if !l.core.rtt.MustCompare(l.core.clock.Now()) {
			t.Error("a probe counts as the comparison that is due")
		}
		takes("an attempt that compares", waiting.AskAll, answer, answer, answer)
		due = false
		takes("one that does not", waiting.AskAll, 0, 0, 0)
		takes("a probe, and its second wave", waiting.ProbeFirst, answer, 0, 0)
		asksQuorumFirst(l)
		takes("a quorum first", waiting.QuorumFirst, 0, 0, 0)
		thaws := make(chan struct{})
		c.before(wave[0], func() { <-thaws })
		time.AfterFunc(3*waiting.MinStep, func() { close(thaws) })
		takes("a probe node that is late", waiting.ProbeFirst, 2*waiting.MinStep, 0, 0)
		c.before(wave[0], func() { time.Sleep(answer) })
		c.rivalHas(l, wave[0])
		takes("a probe that is refused", waiting.ProbeFirst, answer, 0, 0)
		c.masters[wave[0]].Crash(fakeredis.Everything)
		takes("one that stands in for the probe node", waiting.ProbeFirst, 0, 0, 0)
	})
}

// Attempts at the same names begin with the same node, in whatever order they are given. Names
// share the nodes evenly.
func TestWithWhichNodeAttemptsBegin(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, count := c.process(), [3]int{}
		first := func(names ...string) int { return firstNode(l, names...) }
		for i := range 300 {
			one, other := fmt.Sprint("one ", i), fmt.Sprint("other ", i)
			if first(one, other) != first(other, one) {
				t.Errorf("%q and %q have no order of their own", one, other)
			}
			count[first(one)]++
		}
		for node, n := range count {
			if n < 70 {
				t.Errorf("node %d is first for %d of 300 names", node, n)
			}
		}
	})
}
