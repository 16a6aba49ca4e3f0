package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// Reservations that can no longer be ended keep no Locker from closing: the end of the test waits for it.
func TestWithdrawAfterTheNodesAreClosed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.newHold(terms(time.Second), "a")
		for _, n := range c.Nodes {
			n.Close()
		}
		h.Withdraw()
	})
}

// A lock that is released because the caller's code has panicked counts as unlocked.
func TestInterruptUnlocks(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.lock(t)
		h.Interrupt()
		testkit.Check(t, h.First().IsUnlocked() && h.first.hasEnded(), "it is not, or its context goes on")
		c.wantNoOwners(t)
	})
}

// One that was lost before stays lost.
func TestInterruptOfALostLock(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	fake.Advance(time.Second)
	a.hold.due(fake.Now())
	a.hold.Interrupt()
	s := a.hold.First().Status()
	testkit.Check(t, s.Phase == lease.Expired && !s.Unlocked, "%+v", s)
}

// A handle that two goroutines unlock at once has no context once the first of them returns.
func TestASecondUnlockEndsTheContext(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.lock(t)
		h.First().endLease(nil) // by a goroutine that is then late
		tally, before := h.First().Release()
		testkit.Check(t, tally == nil && before.Unlocked && h.first.hasEnded(), "%v, %+v, or its context goes on", tally, before)
	})
}

// A lock that is released after Close has ended before: its contexts have the error of then.
func TestAHoldEndsOnce(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h, heeds := c.lock(t), new(heeding)
		h.terms.Events = heeds
		c.Close()
		h.First().Release()
		testkit.Equal(t, heeds.ending, 1, "ends")
		c.wantNoOwners(t)
	})
}

// Close loses no lock, and releases none: it stays on the nodes until its lease ends.
func TestCloseLosesNoLock(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h, heeds := c.lock(t), new(heeding)
		h.terms.Events = heeds
		h.engine.schedule.Close() // nodes outlast their engine, if the caller opened them
		h.tell(h.lease.Orphan)
		synctest.Wait()
		testkit.Check(t, h.first.hasEnded() && heeds.lost == 0, "its context has ended: %v, told as lost %d times", h.first.hasEnded(), heeds.lost)
		for i, m := range c.world.Masters {
			testkit.Check(t, slices.Contains(m.Keys(), "a"), "master %d has released it", i)
		}
		h.First().Release()
	})
}

// A node that can have nothing counts as having confirmed the release, and is not asked.
func TestANodeWithNothingThereHasConfirmed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.lock(t)
		other := c.newHold(terms(time.Second), "a")
		other.Attempt(t.Context(), -1, waiting.AskAll, false) // all nodes refuse it
		synctest.Wait()
		before, count := c.world.Ran(), newTallyOfAll(1)
		other.sendRelease(lease.Command{Do: lease.Release}, scripts.Release(other.names, other.owner, 0), count)
		testkit.Check(t, isDecided(count) && c.world.Ran() == before, "it has not, or is asked")
		h.First().Release()
	})
}

// A call that differs from the last command's is made for it, though it is not the first.
func TestAReleaseAfterAnotherCommand(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.lock(t)
		commands := []lease.Command{{Do: lease.Stop}}
		for master := range h.members {
			commands = append(commands, lease.Command{Do: lease.Release, Master: master})
		}
		h.mu.Lock()
		h.carryOutLocked(commands, nil)
		h.mu.Unlock()
		synctest.Wait()
		c.wantNoOwners(t)
		h.First().Release()
	})
}

// A re-entry whose caller's context panics has nothing to undo.
func TestBackOutBeforeEnter(t *testing.T) {
	testkit.Check(t, isDecided(new(Handle).BackOut()), "something is undone")
}

func isDecided(t *Tally) bool {
	select {
	case <-t.Decided:
		return true
	default:
		return false
	}
}

// A re-entry that is undone has no context left.
func TestBackOutEndsTheContext(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		inner := new(Handle)
		c.lock(t).First().Enter(inner, context.Background(), lease.Write)
		undone := inner.BackOut()
		undone.AwaitFor(t.Context(), time.Second)
		testkit.Check(t, inner.hasEnded() && isDecided(undone) && undone.Result().Counted == 3, "it goes on, or %d nodes have lowered the depth", undone.Result().Counted)
	})
}

// A lock knows no handle that has left it, however often it is entered.
func TestAHoldForgetsAHandleThatHasLeft(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h, inner := c.lock(t), new(Handle)
		h.First().Enter(inner, context.Background(), lease.Write)
		inner.Lower()
		h.First().Release()
		testkit.Check(t, !inner.hasEnded(), "it ends the handle's context with its own")
	})
}

// A handle that has left no longer changes anything, though the lock is still held.
func TestAHandleThatHasLeftChangesNothing(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h, left := c.lock(t), new(Handle)
		h.First().Enter(left, context.Background(), lease.Write)
		h.First().Enter(new(Handle), context.Background(), lease.Write)
		left.Lower()
		again, s := left.Lower()
		extended, _ := left.Extend(time.Second)
		testkit.Check(t, again == nil && extended == nil && s.Depth == 2 && !s.Holds() && left.Status().Depth == 2,
			"%+v, then %+v", s, left.Status())
		entered, _ := left.Enter(new(Handle), context.Background(), lease.Write)
		testkit.Check(t, entered == nil, "it is entered")
		handed, _ := left.HandOver()
		testkit.Check(t, !handed && h.First().Status().Holds() && !left.Status().Holds(), "handed over: %v, valid: %v", handed, left.Status().Valid)
	})
}

// To hand over a lock whose deadline has passed changes nothing: it is lost, and not unlocked.
func TestALockThatIsOverIsNotHandedOver(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	fake.Advance(time.Second)
	l := a.hold.First()
	handed, before := l.HandOver()
	testkit.Check(t, !handed && !before.Holds() && !l.IsUnlocked() && !a.hold.first.hasEnded(),
		"handed over: %v, unlocked: %v, its contexts have ended: %v", handed, l.IsUnlocked(), a.hold.first.hasEnded())
}

// A lock whose deadline has passed says how many nodes still keep it.
func TestStandingCountsTheKeepers(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	extend := lease.Command{Do: lease.Extend, Until: fake.Now().Add(time.Minute)}
	a.hold.takeReply(extend, lease.Reply{Is: lease.Kept, Process: "one"}, nil)
	fake.Advance(time.Second)
	k := a.hold.First().Status().Keepers
	testkit.Check(t, k.Kept == 1 && k.Unknown == 2, "%+v", k)
}

// A release that a node could not publish is counted.
func TestUnannouncedReleasesAreCounted(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	for heard, want := range map[int]uint64{-1: 1, 0: 0, 1: 0} {
		before := a.hold.engine.Unannounced.Load()
		a.hold.engine.background.add()
		reply := scripts.Reply{Release: scripts.ReleaseReply{Found: 1, Heard: heard}}
		(&releaseReply{hold: a.hold}).Done(pipeline.Result{Reply: reply})
		testkit.Equal(t, a.hold.engine.Unannounced.Load()-before, want, heard)
	}
}
