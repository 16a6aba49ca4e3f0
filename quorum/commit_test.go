package quorum

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
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
	a.ask(waiting.AskAll)
	<-a.decided
	synctest.Wait()
	if !a.isSettled() {
		c.t.Fatal("the attempt is not won")
	}
	return a
}

// The clock is read last: whatever takes longer than the lease in a commit, the attempt is no lock then, and is undone.
func TestCommitReadsTheClockLast(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ticking := clock.NewFake()
		l := c.process(withClock(ticking))
		a := c.won(l)
		ctx := hookedContext{t.Context(), func() { ticking.Advance(l.set.lease) }}
		if a.commit(ctx) {
			t.Error("it is a held lock, and its lease is over")
		}
		if err := a.undo(t.Context()); !errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
		if l.core.schedule.Len() > 0 {
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

// A commit runs code of the caller's, its context's. That may block, so the schedule of all locks must not wait for it.
func TestCommitRunsNoCodeOfTheCallersUnderTheSchedulesMutex(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		a := c.won(l)
		asked := 0
		ctx := hookedContext{t.Context(), func() {
			asked++
			if !returns(func() { l.core.schedule.Len() }) {
				t.Error("the schedule of all locks is locked while the caller's context is asked")
			}
		}}
		if !a.commit(ctx) || asked == 0 {
			t.Fatalf("no lock, or the context was not asked: the test shows nothing (%d)", asked)
		}
		c.unlock(&a.hold.first)
	})
}

// valuedContext is a context of a caller's that runs code whenever it is asked for a value.
type valuedContext struct {
	context.Context
	onValue func()
}

func (c valuedContext) Value(key any) any {
	c.onValue()
	return c.Context.Value(key)
}

// A call that has begun before Close, and whose attempt begins when Close no longer waits for attempts,
// asks nobody: no node would take its release.
func TestNoAttemptBeginsAfterClose(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(), c.process()
		l.core.owned = true
		waiting, closed := make(chan struct{}), make(chan struct{})
		l.core.events.Post(func() { <-waiting }) // the last that Close waits for
		startClose := sync.OnceFunc(func() {
			go func() {
				l.Close()
				close(closed)
			}()
			synctest.Wait()
		})
		endClose := sync.OnceFunc(func() {
			close(waiting)
			<-closed
		})
		ctx := hookedContext{valuedContext{t.Context(), startClose}, endClose}
		if _, err := l.TryLock(ctx, "a"); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
		endClose()
		synctest.Wait()
		c.wantNoOwners(other)
	})
}
