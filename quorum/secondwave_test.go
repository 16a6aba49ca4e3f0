package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// A lock that is released before the second wave has cost no request to the nodes of that wave, and
// leaves nothing there later.
func TestALockThatIsReleasedSoonIsOnAQuorumOnly(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		calls := c.calls.Load()
		c.notAsked(third)
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
		time.Sleep(2 * waiting.MaxStep)
		if owner := c.owners(l)[third]; owner != held.Owner() {
			t.Errorf("the third master has %q", owner)
		}
		h := held.hold
		want := clock.Deadline(h.lease.BegunAt(), h.set.lease, h.set.drift)
		if until := h.lease.Until(third); until != want {
			t.Errorf("the third grant lasts for %v longer than the request says", until.Sub(want))
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
		time.Sleep(2 * waiting.MaxStep)
		if state, err := l.Inspect(t.Context(), "a"); err != nil || state.Owner != held.Owner() {
			t.Errorf("a quorum has %q: %v", state.Owner, err)
		}
		held.Unlock(t.Context())
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
		for i := range held.hold.members {
			if err := held.hold.members[i].err; err != nil {
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
		time.Sleep(2 * waiting.MaxStep)
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
		l.core.schedule.Hasten(&held.hold.entry, l.core.clock.Now())
		synctest.Wait()
		if c.owners(l)[third] != held.Owner() {
			t.Fatal("the third master has not granted: the test shows nothing")
		}
		c.masters[third].Crash(fakeredis.Everything)
		pipe := inside.Of(l.core.nodes[third]).Pipe("a")
		pipe.Do(t.Context(), scripts.Look())
		if pipe.Down() == nil {
			t.Fatal("the third master is not down: the test shows nothing")
		}
		time.Sleep(2 * waiting.MaxStep)
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
				c.notAsked(third)
				a := newAttempt(l.core, l.set, []string{"a"}, nil)
				a.ask(approach)
				time.Sleep(2 * waiting.MaxStep)
				synctest.Wait()
				if a.hold.lease.Verdict() == lease.Open {
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
	a, fake := heldBy(t, time.Second, 2)
	a.entry.Owner = a
	fake.Advance(time.Second)
	a.hold.core.askSecondWaves(fake.Now(), []*schedule.Entry[*attempt]{&a.entry})
	if a.hold.lease.AnswerOf(2) != lease.Unasked {
		t.Error("the third node was asked")
	}
}

// A second wave is asked two steps after its first wave. Waves of up to half a step apart are asked
// together.
func TestSecondWavesThatFallTogether(t *testing.T) {
	for apart, together := range map[time.Duration]bool{waiting.MinStep * 2 / 5: true, waiting.MinStep * 3 / 5: false} {
		inCluster(t, func(t *testing.T, c *cluster) {
			l := asksQuorumFirst(c.process())
			one := c.lock(l, "a")
			time.Sleep(apart)
			other := c.lock(l, "b")
			wait := func(d time.Duration) int {
				time.Sleep(d)
				synctest.Wait()
				return l.core.secondWaves.Len()
			}
			if left := wait(2*waiting.MinStep - apart - time.Nanosecond); left != 2 {
				t.Errorf("before two steps have passed %d of 2 second waves are left", left)
			}
			if left := wait(time.Nanosecond); (left == 0) != together {
				t.Errorf("%v apart: after two steps %d second waves are left", apart, left)
			}
			if left := wait(apart); left != 0 {
				t.Errorf("%v apart: %d second waves are left", apart, left)
			}
			if one.hold.attempt != nil || other.hold.attempt != nil {
				t.Error("a lock keeps its attempt when all nodes have been asked")
			}
			c.unlock(one)
			c.unlock(other)
		})
	}
}

// A lock that lingers stands on all nodes, as one that is held does.
func TestASecondWaveOfALockThatLingers(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process(WithMinHold(time.Second)))
		_, third := firstWave(l)
		held := c.lock(l, "a")
		c.unlock(held)
		time.Sleep(2 * waiting.MaxStep)
		if owner := c.owners(l)[third]; owner != held.Owner() {
			t.Errorf("the third master has %q", owner)
		}
		time.Sleep(time.Second)
		c.wantNoOwners(l)
	})
}

// Close forgets the second waves: the keys of locks are left to their leases.
func TestCloseForgetsSecondWaves(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		c.lock(l, "a")
		c.notAsked(third)
		l.Close()
		if n := l.core.secondWaves.Len(); n != 0 {
			t.Errorf("%d second waves are left", n)
		}
		time.Sleep(2 * waiting.MaxStep)
		c.before(third, func() {})
	})
}

// An attempt that is won may take long to write its token back. Its second wave does not wait.
func TestAWonAttemptHasASecondWave(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := asksQuorumFirst(c.process())
		_, third := firstWave(l)
		a := newAttempt(l.core, l.set, []string{"a"}, nil)
		a.ask(waiting.QuorumFirst)
		<-a.decided
		time.Sleep(2 * waiting.MaxStep)
		if owner := c.owners(l)[third]; owner != a.hold.owner.String() {
			t.Errorf("the third master has %q", owner)
		}
		a.undo(t.Context())
		synctest.Wait()
		c.wantNoOwners(l)
	})
}
