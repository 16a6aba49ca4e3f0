package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// hookedContext is a context of a caller's that runs code whenever it is asked for Done.
type hookedContext struct {
	context.Context
	onDone func()
}

func (c hookedContext) Done() <-chan struct{} {
	c.onDone()
	return c.Context.Done()
}

// won is an attempt that all masters have granted, before it is committed.
func (c *cluster) won(l *Locker) *attempt {
	c.t.Helper()
	a := newAttempt(l.core, l.set, []string{"a"}, nil)
	a.askAll()
	<-a.decided
	synctest.Wait()
	if a.settleToken(c.t.Context()); !a.isWon() {
		c.t.Fatal("the attempt is not won")
	}
	return a
}

// The clock is read last: whatever takes longer than the lease in a commit, the attempt is no lock then, and is undone.
func TestCommitReadsTheClockLast(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ticking := clock.NewFake()
		l := c.process(WithClock(ticking))
		a := c.won(l)
		ctx := hookedContext{t.Context(), func() { ticking.Advance(l.set.lease) }}
		if a.commit(ctx) {
			t.Error("it is a held lock, and its lease is over")
		}
		if err := a.undo(t.Context()); !errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
		if a.hold.entry.index >= 0 {
			t.Error("it is in the schedule")
		}
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// A context that has ended makes no lock, although enough nodes have granted it.
func TestNoCommitForAContextThatHasEnded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		a := c.won(l)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if a.commit(ctx) {
			t.Error("it is a held lock")
		}
		a.undo(t.Context())
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// An attempt that is won while the locker closes is undone, and not left to a schedule that renews nothing any more.
func TestNoCommitAfterClose(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(), c.process()
		a := c.won(l)
		l.Close()
		if a.commit(t.Context()) {
			t.Error("it is a held lock of a locker that is closed")
		}
		if err := a.undo(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		c.wantNoOwners(other)
	})
}

// A lock that is renewed well ends at its max hold, and not before; nothing of it stays in the schedule.
func TestMaxHoldBoundsTheDeadline(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const maxHold = 700 * time.Millisecond
		l := c.process(WithLease(300*time.Millisecond), WithMaxHold(maxHold))
		began := time.Now()
		held := c.lock(l, "a")
		<-held.Context().Done()
		if took := time.Since(began); took < maxHold || took > maxHold+shortly {
			t.Errorf("it ended after %v, want %v", took, maxHold)
		}
		if !errors.Is(held.Err(), ErrLost) {
			t.Error(held.Err())
		}
		synctest.Wait()
		c.wantNoOwners(l)
		c.wantNothingScheduled(l)
	})
}

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
			l.core.schedule.hasten(&held.hold.entry, l.core.clock.Now())
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
		l.core.schedule.mu.Lock()
		after := l.core.renewDue(l.core.clock.Now(), []*entry{&held.hold.entry})
		l.core.schedule.mu.Unlock()
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
	for range 2*maxDue + 7 {
		one := newHold(c, h.set, h.names)
		one.first = Lock{hold: one, level: 1}
		one.first.begin(t.Context())
		one.phase, one.deadline = held, fake.Now().Add(time.Second)
		if !c.schedule.add(&one.entry, func() bool { one.planLocked(fake.Now()); one.entry.at = one.deadline; return true }) {
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
	s := l.core.schedule
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		c.t.Errorf("%d holds are left in the schedule", len(s.queue))
	}
}

// A confirmation raises what is believed of a node and never lowers it: a renewal by a lease that is shorter than an extension.
func TestConfirmationNeverLowers(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	far := clock.Deadline(fake.Now(), 10*time.Second, 0)
	for i, runID := range []string{"one", "two"} {
		h.votes[i].renewedLocked(scripts.Kept, runID, far)
		h.votes[i].renewedLocked(scripts.Kept, runID, clock.Deadline(fake.Now(), time.Second, 0))
	}
	if h.deadline != far {
		t.Errorf("the deadline is %v before that of the extension", far.Sub(h.deadline))
	}
}

// A lock whose batch was refused travels alone until a renewal of its own succeeds, and with others from then on.
func TestRenewedAloneUntilThatSucceeds(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	v := &h.votes[0]
	v.alone = true
	alone := func(reply pipeline.Result) bool {
		b := &renewalBatch{core: h.core, sent: fake.Now(), votes: []*vote{v}, locks: []scripts.Renewal{{Names: h.names, Owner: h.owner}}}
		b.Done(reply)
		return v.alone
	}
	if !alone(pipeline.Result{Err: errors.New("refused"), Sent: true, RefusesKeys: true}) {
		t.Error("it travels with others, and is refused")
	}
	if alone(pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{scripts.Kept}}, RunID: "one", Sent: true}) {
		t.Error("it travels alone for ever")
	}
}

// rivalHas has another owner hold the name "a" on some masters.
func (c *cluster) rivalHas(l *Locker, masters ...int) {
	c.t.Helper()
	for _, i := range masters {
		call := scripts.Acquire(scripts.AcquireArgs{Names: scriptNames([]string{"a"}), Owner: scripts.OwnerOf("rival:1"), Level: 1,
			Lease: l.set.leaseMillis, MaxLease: l.core.maxLeaseMillis, Seed: 1})
		if r := l.core.nodes[i].Pipe("a").Do(c.t.Context(), call); r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
}

// An attempt that failed returns when the nodes that granted it have confirmed the release.
func TestUndoWaitsForThoseThatGranted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.rivalHas(l, 0, 1)
		const slow = 300 * time.Millisecond
		for i := range 2 {
			c.before(i, func() { time.Sleep(5 * time.Millisecond) }) // after the grant
		}
		calls := 0
		c.before(2, func() {
			if calls++; calls == 2 {
				time.Sleep(slow)
			}
		})
		began := time.Now()
		if _, err := l.TryLock(t.Context(), "a"); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		if took := time.Since(began); took < slow {
			t.Errorf("it returned after %v, before its grant was taken back", took)
		}
		if owner := c.owners(l)[2]; owner != "" {
			t.Errorf("the third master still has %s", owner)
		}
	})
}

// Where too many nodes are known to be down, the others are not asked: they would grant what must be released again.
func TestHopelessAttemptAsksNobody(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for _, m := range c.masters[:2] {
			m.Crash(fakeredis.Everything)
		}
		if _, err := l.TryLock(t.Context(), "a"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		synctest.Wait()
		calls := c.calls.Load()
		if _, err := l.TryLock(t.Context(), "a"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		synctest.Wait()
		if asked := c.calls.Load() - calls; asked != 0 {
			t.Errorf("%d calls", asked)
		}
	})
}

// countingClock is a clock by which a second passes with every look at it.
type countingClock struct {
	clock.Clock
	now clock.Instant
}

func (c *countingClock) Now() clock.Instant {
	c.now = c.now.Add(time.Second)
	return c.now
}

// A grant counts from a look at the clock before anything was sent, however late that was.
func TestTheClockIsReadBeforeAnythingIsSent(t *testing.T) {
	for what, ask := range map[string]func(a *attempt){
		"all": (*attempt).askAll,
		"probe first": func(a *attempt) {
			a.start()
			a.sendProbe(0, a.hold.acquire())
			a.askOthers(context.Background(), a.hold.acquire())
		},
	} {
		t.Run(what, func(t *testing.T) {
			a, _ := heldHold(t, time.Hour)
			c := a.hold.core
			counting := &countingClock{Clock: c.clock, now: c.clock.Now()}
			c.clock = counting
			first := counting.now.Add(time.Second)
			a = newAttempt(c, a.hold.set, []string{"b"}, nil)
			a.probed = make(chan struct{}, 3)
			ask(a)
			a.hold.mu.Lock()
			defer a.hold.mu.Unlock()
			if a.hold.requestedAt != first {
				t.Errorf("grants count from %v after the first look at the clock", a.hold.requestedAt.Sub(first))
			}
		})
	}
}

// The lock's context ends before its release is sent: no other holder starts while the work goes on.
func TestContextEndsBeforeTheReleaseIsSent(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		unlocking, asked := false, false
		calls := c.calls.Load()
		ctx := hookedContext{t.Context(), func() {
			if !unlocking || asked {
				return
			}
			asked = true
			time.Sleep(time.Second)
			if sent := c.calls.Load() - calls; sent > 0 {
				t.Errorf("%d releases have arrived", sent)
			}
		}}
		held, err := l.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		calls, unlocking = c.calls.Load(), true
		c.unlock(held)
		if !asked {
			t.Error("the context was not asked: the test shows nothing")
		}
	})
}

// Nothing that could bring a key back is sent once the release is: through a handle that nobody has unlocked, of a lock that was.
func TestNothingIsSentAfterTheRelease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner, err := l.Lock(held.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.unlock(held)
		synctest.Wait()
		calls := c.calls.Load()
		if _, err := inner.enter(t.Context(), l.set, []string{"a"}); !errors.Is(err, ErrNotAcquired) {
			t.Errorf("entered again: %v", err)
		}
		if err := inner.Extend(t.Context(), time.Second); !errors.Is(err, ErrNotHeld) {
			t.Errorf("extended: %v", err)
		}
		if err := inner.Unlock(t.Context()); !errors.Is(err, ErrNotHeld) {
			t.Errorf("unlocked: %v", err)
		}
		l.core.renewDue(l.core.clock.Now(), []*entry{&held.hold.entry})()
		synctest.Wait()
		if sent := c.calls.Load() - calls; sent != 0 {
			t.Errorf("%d calls after the release", sent)
		}
		c.wantNoOwners(l)
	})
}

// A renewal that is sent alone, after its batch was refused, counts from then, and not from the batch, nor from never.
func TestRenewalAloneCountsFromItsOwnRequest(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	v := &h.votes[0]
	b := &renewalBatch{core: h.core, pipe: h.pipe(0), sent: fake.Now(), votes: []*vote{v}, locks: []scripts.Renewal{{Names: h.names, Owner: h.owner}}}
	fake.Advance(time.Second / 2)
	if err := b.startAlone(v); err != nil {
		t.Fatal(err)
	}
	if b.sent != fake.Now() {
		t.Errorf("it counts from %v before it was sent", fake.Now().Sub(b.sent))
	}
}

// A deadline that comes nearer, since a node has forgotten what it had promised, is kept: the schedule sees to the hold by then.
func TestScheduleSeesToADeadlineThatCameNearer(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		a, fake := heldHold(t, time.Second)
		h := a.hold
		h.set.fixed = fixed
		near, far := fake.Now().Add(time.Millisecond), clock.Deadline(fake.Now(), 10*time.Second, 0)
		h.votes[0].renewedLocked(scripts.Kept, "one", far)
		h.votes[1].renewedLocked(scripts.Kept, "two", far)
		h.votes[2].renewedLocked(scripts.Kept, "three", near)
		by, lost := h.applyAnswer(func() { h.votes[0].renewedLocked(scripts.Gone, "one", far) })
		if by != near || lost || h.deadline != near {
			t.Errorf("fixed %v: seen to by %v after the deadline, lost: %v", fixed, by.Sub(near), lost)
		}
	}
}
