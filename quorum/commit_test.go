package quorum

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
		asked := 0
		ctx := hookedContext{t.Context(), func() {
			asked++
			if !returns(func() { l.core.Held() }) {
				t.Error("the schedule of all locks is locked while the caller's context is asked")
			}
		}}
		lock, err := l.TryLock(ctx, "a")
		c.must(err)
		if asked == 0 {
			t.Error("the context was not asked: the test shows nothing")
		}
		c.unlock(lock)
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
