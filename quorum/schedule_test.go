package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// Holds that are over leave the schedule: when they are lost by the clock, and when answers tell that they are.
func TestLostHoldsLeaveTheSchedule(t *testing.T) {
	for what, lose := range map[string]func(c *cluster, l *Locker, held *Lock){
		"by the clock": func(c *cluster, l *Locker, held *Lock) {
			stalled := make(chan struct{})
			c.stalled.Store(&stalled)
			time.Sleep(300 * time.Millisecond)
			c.stalled.Store(nil)
			close(stalled)
		},
		"by answers": func(c *cluster, l *Locker, held *Lock) {
			for _, m := range c.masters {
				m.Flush()
			}
			l.core.schedule.Hasten(&held.hold.entry, l.core.clock.Now())
		},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				l := c.process(WithLease(300 * time.Millisecond))
				held := c.lock(l, "a")
				synctest.Wait()
				lose(c, l, held)
				<-held.Context().Done()
				synctest.Wait()
				c.wantNothingScheduled(l)
			})
		})
	}
}

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

// More holds than the schedule sees to at a time are lost in one go.
func TestManyHoldsAreLostTogether(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	c := h.core
	var all []*hold
	for range 519 {
		one := newHold(c, h.set, h.first.names)
		one.first = Lock{hold: one, level: 1}
		one.first.begin(t.Context())
		one.phase, one.deadline = held, fake.Now().Add(time.Second)
		if !c.schedule.Add(&one.entry, func() bool { one.planLocked(fake.Now()); one.entry.At = one.deadline; return true }) {
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
		h.set.fixed = fixed
		near, far := fake.Now().Add(time.Millisecond), clock.Deadline(fake.Now(), 10*time.Second, 0)
		h.votes[0].renewedLocked(renewed(scripts.Kept, "one"), 0, far)
		h.votes[1].renewedLocked(renewed(scripts.Kept, "two"), 0, far)
		h.votes[2].renewedLocked(renewed(scripts.Kept, "three"), 0, near)
		by, lost := h.applyAnswer(func() { h.votes[0].renewedLocked(renewed(scripts.Gone, "one"), 0, far) })
		if by != near || lost || h.deadline != near {
			t.Errorf("fixed %v: seen to by %v after the deadline, lost: %v", fixed, by.Sub(near), lost)
		}
	}
}
