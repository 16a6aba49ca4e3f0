package engine

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
)

// Renewals are on their way when the schedule is unlocked: what removes a hold from the schedule may send its release then.
func TestRenewalsAreSentUnderTheSchedulesMutex(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		held := c.lock(t)
		calls := c.world.Ran()
		after := held.handleDue()
		synctest.Wait()
		testkit.Equal(t, c.world.Ran()-calls, 3, "renewals that were sent under the mutex")
		after()
	})
}

// A renewal that cannot be sent has failed: the lock says why.
func TestARenewalThatCannotBeSent(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		held := c.lock(t)
		c.Nodes[0].Close()
		held.handleDue()()
		held.mu.Lock()
		defer held.mu.Unlock()
		testkit.Check(t, errors.Is(held.members[0].err, node.ErrClosed), "%v", held.members[0].err)
	})
}

// Nothing is sent for a hold that the schedule has found due before it was released.
func TestAHoldThatIsDueAfterItsRelease(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		held := c.lock(t)
		held.First().Release()
		synctest.Wait()
		calls := c.world.Ran()
		held.first.makeContext(held.parent)
		held.handleDue()()
		synctest.Wait()
		testkit.Equal(t, c.world.Ran()-calls, 0, "calls after the release")
		testkit.Check(t, !held.first.hasEnded(), "its contexts end again")
		c.wantNoOwners(t)
	})
}

// A hold leaves the schedule before its release is sent. The schedule's mutex is locked from the
// moment when renewals are gathered until they are in the pipelines, so none follows the release.
func TestAHoldLeavesTheScheduleBeforeItsRelease(t *testing.T) {
	for what, release := range map[string]func(h *Hold){
		"unlocked":    func(h *Hold) { h.First().Release() },
		"interrupted": (*Hold).Interrupt,
		"lost": func(h *Hold) {
			h.mu.Lock()
			h.lease.TakeReply(h.engine.Clock.Now(), lease.Command{Do: lease.Extend}, lease.Reply{Is: lease.Gone}, nil)
			h.mu.Unlock()
			h.takeReply(lease.Command{Do: lease.Extend, Master: 1}, lease.Reply{Is: lease.Gone}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, nil, func(t *testing.T, c *cluster) {
				h := c.lock(t)
				calls := c.world.Ran()
				var released sync.WaitGroup
				c.schedule.Add(new(schedule.Entry[*Hold]), func() bool {
					released.Go(func() { release(h) })
					for range 100_000 { // no wait of the bubble ends while a goroutine waits for a mutex
						runtime.Gosched()
					}
					testkit.Equal(t, c.world.Ran()-calls, 0, "releases that were sent while the schedule's mutex was locked")
					return false
				})
				released.Wait()
				synctest.Wait()
				testkit.Check(t, c.world.Ran() != calls, "no release was sent: the test shows nothing")
			})
		})
	}
}

// More holds than the schedule handles at a time are lost together.
func TestManyHoldsAreLostTogether(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	e := a.hold.engine
	fixed := *a.hold.terms // so that none is renewed
	fixed.Fixed = true
	var all []*Hold
	for range 519 {
		one := e.held(t, &fixed, "one", "two")
		e.schedule.Add(&one.entry, func() bool { return true })
		all = append(all, one)
	}
	fake.Advance(time.Second)
	<-e.Idle()
	for i, one := range all {
		testkit.Require(t, one.first.hasEnded(), "the context of hold %d goes on", i)
	}
}

// If a node has forgotten its grant, the deadline comes nearer: the schedule handles the hold by then.
func TestScheduleSeesToADeadlineThatCameNearer(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		a, fake := heldHold(t, time.Second)
		h := a.hold
		h.terms.Fixed = fixed
		near, far := fake.Now().Add(time.Second+time.Millisecond), clock.Deadline(fake.Now(), 10*time.Second, 0)
		answer := func(node int, is lease.Answer, until clock.Instant) {
			reply := lease.Reply{Is: is, Process: [...]string{"one", "two", "three"}[node]}
			h.takeReply(lease.Command{Do: lease.Extend, Master: node, Until: until}, reply, nil)
		}
		answer(0, lease.Kept, far)
		answer(1, lease.Kept, far)
		answer(2, lease.Kept, near)
		h.lease.Postpone(h.lease.Deadline(), 0)
		h.entry.At = h.lease.Deadline()
		h.engine.schedule.Add(&h.entry, func() bool { return true })
		second := h.lease.Until(2)
		answer(0, lease.Gone, far)
		testkit.Check(t, h.first.Status().Holds() && !second.Before(h.entry.At) && h.lease.Deadline() == second,
			"fixed %v: handled %v after the deadline, valid: %v", fixed, h.entry.At.Sub(second), h.first.Status().Holds())
	}
}
