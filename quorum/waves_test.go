package quorum

import (
	"context"
	"errors"
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
		probed := h.probeNode()
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
		c.before(h.probeNode(), func() { <-frozen })
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
		c.before(h.probeNode(), func() { time.Sleep(time.Second / 2) })
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
		c.before(h.probeNode(), func() { <-frozen })
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
	first := newAttempt(l.core, l.set, []string{"a"}, nil).hold.probeNode()
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
		l := asksQuorumFirst(c.process())
		wave, third := firstWave(l)
		c.rivalHas(l, wave[:]...)
		c.before(third, func() { t.Error("the third master was asked") })
		_, err := l.TryLock(t.Context(), "a")
		var failed *Error
		if !errors.As(err, &failed) || !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		if failed.Refused != 2 || !strings.Contains(err.Error(), "2 refused, 1 not asked") {
			t.Error(err)
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

// A re-entry before the second wave reaches every node after its grant, which has level 1.
func TestReentryBeforeTheSecondWave(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		held := c.lock(l, "a")
		inner, err := l.Lock(held.Context(), "a")
		if err != nil {
			t.Fatal(err)
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
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// A repair comes before the second wave, whose node is down by then. It still needs a release.
func TestASecondWaveThatIsNotSentLeavesNothingBehind(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		held := c.lock(l, "a")
		l.core.schedule.hasten(&held.hold.entry, l.core.clock.Now())
		synctest.Wait()
		if c.owners(l)[third] != held.Owner() {
			t.Fatal("the third master has not granted: the test shows nothing")
		}
		c.masters[third].Crash(fakeredis.Everything)
		pipe := l.core.nodes[third].Pipe("a")
		pipe.Do(t.Context(), scripts.Look())
		if pipe.Down() == nil {
			t.Fatal("the third master is not down: the test shows nothing")
		}
		time.Sleep(2 * maxStep)
		c.unlock(held)
		c.masters[third].Start()
		time.Sleep(time.Second)
		c.wantNoOwners(l)
	})
}

// An attempt has failed, but its call is slow to undo it. No second wave follows.
func TestAFailedAttemptHasNoSecondWave(t *testing.T) {
	for what, approach := range map[string]waiting.Approach{
		"quorum first": waiting.QuorumFirst, "probe first": waiting.ProbeFirst,
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				l := asksQuorumFirst(c.process())
				wave, third := firstWave(l)
				c.rivalHas(l, wave[:]...)
				c.before(third, func() { t.Error("the third master was asked") })
				a := newAttempt(l.core, l.set, []string{"a"}, nil)
				a.ask(approach)
				time.Sleep(2 * maxStep)
				if !a.isDecided() {
					t.Fatal("the attempt is open: the test shows nothing")
				}
				c.before(third, func() {})
				a.undo(t.Context())
				synctest.Wait()
			})
		})
	}
}

// A process that was paused until its lock was over asks no further node.
func TestALockThatIsOverHasNoSecondWave(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	a.answers[2].outcome = unasked
	a.entry = entry{owner: a, index: -1}
	fake.Advance(time.Second)
	a.hold.core.askSecondWaves(fake.Now(), []*entry{&a.entry})
	if a.answers[2].outcome != unasked {
		t.Error("the third node was asked")
	}
}

// Only a busy locker asks a quorum first, and not with all of its attempts.
func TestOnlyABusyLockerAsksAQuorumFirst(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		asked := func() int64 {
			calls := c.calls.Load()
			lock := c.lock(l, "a")
			synctest.Wait()
			calls = c.calls.Load() - calls
			c.unlock(lock)
			synctest.Wait()
			return calls
		}
		if n := asked(); n != 3 {
			t.Errorf("an idle locker asks %d nodes", n)
		}
		l.core.attempting.Add(busyFrom)
		if n := asked(); n != 2 {
			t.Errorf("a busy locker asks %d nodes", n)
		}
		time.Sleep(compareEvery)
		if n := asked(); n != 3 {
			t.Errorf("after %v, a busy locker asks %d nodes", compareEvery, n)
		}
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
