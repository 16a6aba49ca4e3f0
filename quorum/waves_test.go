package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// The probe node is slow, so the others are asked meanwhile, and one of them has granted another
// owner. The probe node's grant counts from its own request, not from theirs.
func TestProbeNodeThatIsSlowCountsFromItsOwnRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		probed := h.firstNode()
		rival := scripts.Acquire(scripts.AcquireArgs{Names: h.names, Owner: scripts.OwnerOf("rival:1"), Level: 1,
			Lease: h.set.leaseMillis, List: l.core.members.list.Load(), Seed: 1})
		if r := l.core.nodes[(probed+1)%3].Pipe("a").Do(t.Context(), rival); r.Err != nil {
			t.Fatal(r.Err)
		}

		slow := make(chan struct{})
		c.before(probed, func() { <-slow })
		late := time.AfterFunc(time.Second/2, func() { close(slow) })
		defer late.Stop()
		began := l.core.clock.Now()
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if most := clock.Deadline(began, l.set.lease, l.set.drift); most.Before(lock.hold.deadline) {
			t.Errorf("the deadline is %v after that of the request to the probe node", lock.hold.deadline.Sub(most))
		}
		c.unlock(lock)
	})
}

// A probe node that does not answer delays the attempt by no more than two steps.
func TestProbeNodeThatIsFrozen(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		frozen := make(chan struct{})
		defer close(frozen)
		c.before(h.firstNode(), func() { <-frozen })
		began := time.Now()
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if took := time.Since(began); took > 2*maxStep {
			t.Errorf("it waited for the probe node for %v", took)
		}
		c.unlock(lock)
	})
}

// Every node is asked once: the probe node is not asked again with the others when it has not answered.
func TestNoNodeIsAskedTwice(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		calls := c.calls.Load()
		c.before(h.firstNode(), func() { time.Sleep(time.Second / 2) })
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if asked := c.calls.Load() - calls; asked != 3 {
			t.Errorf("%d calls of 3 nodes", asked)
		}
		c.unlock(lock)
	})
}

// An attempt whose context ends while it probes asks no other node.
func TestNoOtherNodeIsAskedOnceTheContextHasEnded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		frozen := make(chan struct{})
		c.before(h.firstNode(), func() { <-frozen })
		calls := c.calls.Load()
		ctx, cancel := context.WithTimeout(t.Context(), minStep)
		defer cancel()
		if lock, _ := l.core.attempt(ctx, l.set, []string{"a"}, waiting.ProbeFirst); lock != nil {
			t.Error("it has the lock")
		}
		synctest.Wait()
		if asked := c.calls.Load() - calls; asked != 1 {
			t.Errorf("%d nodes were asked, want the probe node alone", asked)
		}
		close(frozen)
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// A probe node that fails is replaced by the next one, whose refusal ends the attempt.
func TestProbeNodeThatFailsIsReplaced(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		c.rivalHas(l, wave[1])
		c.before(third, func() { t.Error("the third master was asked") })
		c.masters[wave[0]].Crash(fakeredis.Everything)
		_, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if r == nil || !r.Held || r.Listeners != 0 {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		c.before(third, func() {})
	})
}

// asksQuorumFirst has every attempt of the locker ask a quorum first, where its approach allows it.
func asksQuorumFirst(l *Locker) *Locker {
	l.core.quorumFirst = func(uint64) bool { return true }
	return l
}

// firstWave returns the nodes of the first wave for the name "a", and the third one.
func firstWave(l *Locker) (wave [2]int, third int) {
	first := newAttempt(l.core, l.set, []string{"a"}, nil).hold.firstNode()
	return [2]int{first, (first + 1) % 3}, (first + 2) % 3
}

// A lock that is released before the second wave has cost no request to the nodes of that wave, and
// leaves nothing there later.
func TestALockThatIsReleasedSoonIsOnAQuorumOnly(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		calls := c.calls.Load()
		c.before(third, func() { t.Error("the third master was asked") })
		c.unlock(c.lock(l, "a"))
		time.Sleep(time.Second)
		if made := c.calls.Load() - calls; made != 4 {
			t.Errorf("%d calls, want 2 acquires and 2 releases", made)
		}
		c.before(third, func() {})
		c.wantNoOwners(l)
		c.wantNothingScheduled(l)
	})
}

// A lock that is held for longer stands on all nodes, and its grants there count from the first
// requests. The release goes to all of them.
func TestALockThatLivesLongerIsOnAllNodes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		held := c.lock(l, "a")
		if owner := c.owners(l)[third]; owner != "" {
			t.Errorf("the third master has %s at once", owner)
		}
		time.Sleep(2 * maxStep)
		if owner := c.owners(l)[third]; owner != held.Owner() {
			t.Errorf("the third master has %q", owner)
		}
		h := held.hold
		if until := h.votes[third].until; until != h.deadlineFor(h.requestedAt) {
			t.Errorf("the third grant lasts for %v longer than the request says", until.Sub(h.deadlineFor(h.requestedAt)))
		}
		c.unlock(held)
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// One master dies as soon as its grant has made the lock. The second wave makes up for it: the lock
// does not wait for its renewal.
func TestTheSecondWaveMakesUpForALostGrant(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process(WithLease(20 * time.Second)))
		wave, _ := firstWave(l)
		held := c.lock(l, "a")
		c.masters[wave[0]].Crash(fakeredis.Everything)
		time.Sleep(2 * maxStep)
		if state, err := l.Inspect(t.Context(), "a"); err != nil || state.Owner != held.Owner() {
			t.Errorf("a quorum has %q: %v", state.Owner, err)
		}
		held.Unlock(t.Context())
	})
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
		c.before(third, func() { t.Error("the third master was asked") })
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
		_, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.QuorumFirst)
		if r == nil || r.Wait != 5*time.Second {
			t.Errorf("%+v", r)
		}
		time.Sleep(2 * maxStep) // an attempt that has ended has no second wave
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
			l.core.nodes[node].Pipe("a").Do(c.t.Context(), scripts.Look())
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
				if took := time.Since(began); took >= 2*minStep {
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
		if took[0] > 2*maxStep || took[5] >= 2*minStep {
			t.Errorf("attempts took %v", took)
		}
		close(frozen)
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// An extension before the second wave reaches every node after its grant.
func TestExtendBeforeTheSecondWave(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process(WithFixedLease(time.Second)))
		held := c.lock(l, "a")
		if err := held.Extend(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range held.hold.votes {
			if err := held.hold.votes[i].err; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(3 * time.Second)
		for i, owner := range c.owners(l) {
			if owner != held.Owner() {
				t.Errorf("master %d has %q", i, owner)
			}
		}
		c.unlock(held)
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
		time.Sleep(compareEvery)
		asks("an attempt that compares the nodes again", 3)
		asks("the next one", 2)
	})
}

// An attempt that must ask all nodes does so however busy the locker is.
func TestAskAllAsksAllNodes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		calls := c.calls.Load()
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.AskAll)
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

// Where every node is needed, all are asked.
func TestAllNodesAreAskedWhereAllAreNeeded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		l.core.need = 3
		calls := c.calls.Load()
		held := c.lock(l, "a")
		if n := c.calls.Load() - calls; n != 3 {
			t.Errorf("%d calls", n)
		}
		c.unlock(held)
	})
}

// A second wave is asked two steps after its first wave. Waves of up to half a step apart are asked
// together.
func TestSecondWavesThatFallTogether(t *testing.T) {
	for apart, together := range map[time.Duration]bool{minStep * 2 / 5: true, minStep * 3 / 5: false} {
		inCluster(t, func(t *testing.T, c *cluster) {
			l := asksQuorumFirst(c.process())
			one := c.lock(l, "a")
			time.Sleep(apart)
			other := c.lock(l, "b")
			wait := func(d time.Duration) int {
				time.Sleep(d)
				synctest.Wait()
				return l.core.secondWaves.len()
			}
			if left := wait(2*minStep - apart - time.Nanosecond); left != 2 {
				t.Errorf("before two steps have passed %d of 2 second waves are left", left)
			}
			if left := wait(time.Nanosecond); (left == 0) != together {
				t.Errorf("%v apart: after two steps %d second waves are left", apart, left)
			}
			if left := wait(apart); left != 0 {
				t.Errorf("%v apart: %d second waves are left", apart, left)
			}
			if one.hold.secondWave != nil || other.hold.secondWave != nil {
				t.Error("a lock keeps its attempt when all nodes have been asked")
			}
			c.unlock(one)
			c.unlock(other)
		})
	}
}

// Re-entry before the second wave reaches every node after its grant, which would lower the level.
func TestReentryBeforeTheSecondWave(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		held := c.lock(l, "a")
		inner, err := l.Lock(held.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if inner.Level() != 2 {
			t.Fatalf("level %d", inner.Level())
		}
		time.Sleep(2 * maxStep)
		state, err := l.Inspect(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range state.Nodes {
			if n.Owner != held.Owner() || n.Level != 2 {
				t.Errorf("%s has %q at level %d", n.Node, n.Owner, n.Level)
			}
		}
		c.unlock(inner)
		c.unlock(held)
	})
}

// A lock that lingers stands on all nodes, as one that is held does.
func TestASecondWaveOfALockThatLingers(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process(WithMinHold(time.Second)))
		_, third := firstWave(l)
		held := c.lock(l, "a")
		c.unlock(held)
		time.Sleep(2 * maxStep)
		if owner := c.owners(l)[third]; owner != held.Owner() {
			t.Errorf("the third master has %q", owner)
		}
		time.Sleep(time.Second)
		c.wantNoOwners(l)
	})
}

// A probe node in quarantine is replaced, too: by the next node alone.
func TestProbeNodeInQuarantineIsReplaced(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.quarantined()
		l := c.process()
		c.lets(l, "a")
		wave, third := firstWave(l)
		c.masters[wave[0]].Crash(fakeredis.Everything)
		c.masters[wave[0]].Start()
		time.Sleep(5 * time.Second) // until probes find that the node answers again
		c.unlock(c.lock(l, "a"))    // marks it
		synctest.Wait()
		c.rivalHas(l, wave[1])
		c.before(third, func() { t.Error("the third master was asked") })
		_, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if r == nil || r.of[quarantined] != 1 || r.of[refused] != 1 {
			t.Errorf("%+v", r)
		}
		c.before(third, func() {})
	})
}

// A second wave that no node takes ends the attempt: it does not wait for the node that is frozen.
func TestASecondWaveThatFailsAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		frozen := make(chan struct{})
		c.before(wave[0], func() { <-frozen })
		time.AfterFunc(minStep, func() {
			for _, i := range []int{wave[1], third} {
				c.masters[i].Crash(fakeredis.Everything)
				l.core.nodes[i].Pipe("a").Do(context.Background(), scripts.Look())
			}
		})
		began := time.Now()
		_, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if r == nil || !errors.Is(r.err, ErrUnavailable) {
			t.Fatalf("%+v", r)
		}
		if took := time.Since(began); took > 2*minStep+grace {
			t.Errorf("it took %v", took)
		}
		close(frozen)
		synctest.Wait()
	})
}

// The order of a probe is the same for all processes, whichever nodes one of them finds slow.
func TestASlowProbeNodeIsAskedFirst(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		c.rivalHas(l, wave[0])
		l.core.pace.observe(wave[0], time.Second)
		l.core.pace.observe(wave[1], time.Millisecond)
		l.core.pace.observe(third, time.Millisecond)
		calls := c.calls.Load()
		_, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if r == nil || !r.Held {
			t.Fatalf("%+v", r)
		}
		if n := c.calls.Load() - calls; n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// A slow node is asked last, but it is asked.
func TestASlowNodeIsAsked(t *testing.T) {
	for _, approach := range []waiting.Approach{waiting.AskAll, waiting.QuorumFirst, waiting.ProbeFirst} {
		inCluster(t, func(t *testing.T, c *cluster) {
			l := asksQuorumFirst(c.process())
			wave, third := firstWave(l)
			l.core.pace.observe(wave[1], time.Second)
			l.core.pace.observe(wave[0], time.Microsecond)
			l.core.pace.observe(third, time.Microsecond)
			lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, approach)
			if lock == nil {
				t.Fatal(r.err)
			}
			if approach == waiting.QuorumFirst && c.owners(l)[wave[1]] != "" {
				t.Error("the slow node is in the first wave")
			}
			time.Sleep(2 * maxStep)
			if owner := c.owners(l)[wave[1]]; owner != lock.Owner() {
				t.Errorf("approach %d: the slow node has %q", approach, owner)
			}
			c.unlock(lock)
		})
	}
}

// The pace takes the answers of probe nodes and of attempts that compare all nodes: not those of
// second waves, of nodes that stand in for others, and of further attempts, which were asked later
// or in other company.
func TestWhichAnswersThePaceTakes(t *testing.T) {
	const answer = 100 * time.Microsecond // the time of one, in this test
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		for i := range c.masters {
			c.before(i, func() { time.Sleep(answer) })
		}
		takes := func(what string, approach waiting.Approach, first, second, last time.Duration) {
			t.Helper()
			lock, _ := l.core.attempt(t.Context(), l.set, []string{"a"}, approach)
			time.Sleep(2 * maxStep)
			for i, want := range map[int]time.Duration{wave[0]: first, wave[1]: second, third: last} {
				if got := time.Duration(l.core.pace.nanos[i].Swap(0)); got != want {
					t.Errorf("%s: node %d of the order: %v, want %v", what, (i-wave[0]+3)%3, got, want)
				}
			}
			if lock != nil {
				c.unlock(lock)
			}
			synctest.Wait()
		}
		compared := l.core.pace.comparedAt.Load()
		takes("a probe, although a comparison is due", waiting.ProbeFirst, answer, 0, 0)
		if l.core.pace.comparedAt.Load() != compared {
			t.Error("a probe counts as the comparison that is due")
		}
		takes("an attempt that compares", waiting.AskAll, answer, answer, answer)
		l.core.pace.comparedAt.Store(int64(l.core.clock.Now().Add(time.Hour)))
		takes("one that does not", waiting.AskAll, 0, 0, 0)
		takes("a probe, and its second wave", waiting.ProbeFirst, answer, 0, 0)
		asksQuorumFirst(l)
		takes("a quorum first", waiting.QuorumFirst, 0, 0, 0)
		thaws := make(chan struct{})
		c.before(wave[0], func() { <-thaws })
		time.AfterFunc(3*minStep, func() { close(thaws) })
		takes("a probe node that is late", waiting.ProbeFirst, 2*minStep, 0, 0)
		c.before(wave[0], func() { time.Sleep(answer) })
		c.rivalHas(l, wave[0])
		takes("a probe that is refused", waiting.ProbeFirst, answer, 0, 0)
		c.masters[wave[0]].Crash(fakeredis.Everything)
		takes("one that stands in for the probe node", waiting.ProbeFirst, 0, 0, 0)
	})
}

// Close forgets the second waves: the keys of locks are left to their leases.
func TestCloseForgetsSecondWaves(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		c.lock(l, "a")
		c.before(third, func() { t.Error("the third master was asked") })
		l.Close()
		if n := l.core.secondWaves.len(); n != 0 {
			t.Errorf("%d second waves are left", n)
		}
		time.Sleep(2 * maxStep)
		c.before(third, func() {})
	})
}

// Attempts at the same names begin with the same node, in whatever order they are given. Names
// share the nodes evenly.
func TestWithWhichNodeAttemptsBegin(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, count := c.process(), [3]int{}
		first := func(names ...string) int { return newAttempt(l.core, l.set, names, nil).hold.firstNode() }
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
