package quorum

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
)

// Renewals are on their way when the schedule is unlocked: what removes a hold from the schedule may send its release then.
func TestRenewalsAreSentUnderTheSchedulesMutex(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		synctest.Wait()
		calls := c.calls.Load()
		after := l.core.renewDue(l.core.clock.Now(), []*schedule.Entry[*hold]{&held.hold.entry})
		synctest.Wait()
		if sent := c.calls.Load() - calls; sent != 3 {
			t.Errorf("%d renewals were sent under the mutex, want 3", sent)
		}
		after()
		c.unlock(held)
	})
}

// A hold leaves the schedule before its release is sent. The schedule's mutex is locked from the
// moment when renewals are gathered until they are in the pipelines, so none follows the release.
func TestAHoldLeavesTheScheduleBeforeItsRelease(t *testing.T) {
	for what, release := range map[string]func(h *hold){
		"unlocked":    func(h *hold) { h.first.Unlock(context.Background()) },
		"interrupted": (*hold).releaseInterrupted,
		"lost": func(h *hold) {
			h.mu.Lock()
			h.lease.TakeReply(h.core.clock.Now(), lease.Command{Do: lease.Extend}, lease.Reply{Is: lease.Gone}, nil)
			h.mu.Unlock()
			h.takeReply(lease.Command{Do: lease.Extend, Master: 1}, lease.Reply{Is: lease.Gone}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				l := c.process()
				h := c.lock(l, "a").hold
				synctest.Wait()
				calls := c.calls.Load()
				var released sync.WaitGroup
				l.core.schedule.Add(new(schedule.Entry[*hold]), func() bool {
					released.Go(func() { release(h) })
					for range 100_000 { // no wait of the bubble ends while a goroutine waits for a mutex
						runtime.Gosched()
					}
					if sent := c.calls.Load() - calls; sent > 0 {
						t.Errorf("%d releases were sent while the schedule's mutex was locked", sent)
					}
					return false
				})
				released.Wait()
				synctest.Wait()
				if c.calls.Load() == calls {
					t.Error("no release was sent: the test shows nothing")
				}
			})
		})
	}
}

// More holds than the schedule sees to at a time are lost in one go.
func TestManyHoldsAreLostTogether(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	c := h.core
	fixed := *h.set // so that none is renewed
	fixed.terms.Fixed = true
	var all []*hold
	for range 519 {
		one := newHold(c, &fixed, h.first.names)
		one.first = Lock{hold: one, level: 1}
		one.first.makeContext(t.Context())
		asks := one.lease.Begin(fake.Now(), lease.Plan{}, nil)
		for i, process := range []string{"one", "two"} {
			one.lease.TakeReply(fake.Now(), asks[i], lease.Reply{Is: lease.Granted, Process: process}, nil)
		}
		if !c.schedule.Add(&one.entry, one.holdUnlessLate) {
			t.Fatal("the schedule is closed")
		}
		all = append(all, one)
	}
	fake.Advance(time.Second)
	<-c.background.idle()
	for i, one := range all {
		if one.first.ctx.Err() == nil {
			t.Fatalf("the context of hold %d goes on", i)
		}
	}
}

// wantNothingScheduled wants the schedule to be empty.
func (c *cluster) wantNothingScheduled(l *Locker) {
	c.t.Helper()
	if n := l.core.schedule.Len(); n > 0 {
		c.t.Errorf("%d holds are left in the schedule", n)
	}
}

// A deadline that comes nearer, since a node has forgotten what it had promised, is kept: the schedule sees to the hold by then.
func TestScheduleSeesToADeadlineThatCameNearer(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		a, fake := heldHold(t, time.Second)
		h := a.hold
		h.set.terms.Fixed = fixed
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
		h.core.schedule.Add(&h.entry, func() bool { return true })
		second := h.lease.Until(2)
		answer(0, lease.Gone, far)
		if !h.validLocked() || second.Before(h.entry.At) || h.lease.Deadline() != second {
			t.Errorf("fixed %v: handled %v after the deadline, valid: %v", fixed, h.entry.At.Sub(second), h.validLocked())
		}
	}
}
