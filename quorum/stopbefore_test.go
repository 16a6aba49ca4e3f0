package quorum

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The contexts end that long before the deadline, however the lock ends. The lock is held until then, so work can be
// put away and the lock unlocked in good order.
func TestStopBefore(t *testing.T) {
	const stop = 5 * time.Second
	for what, s := range map[string]struct {
		options []Option
		silent  bool // no master answers
		why     string
	}{
		"a renewed lease": {nil, true, "not renewed in time"},
		"a fixed lease":   {[]Option{WithFixedLease(20 * time.Second)}, false, "its fixed lease of 20s ends"},
		"a max hold":      {[]Option{WithMaxHold(time.Minute)}, false, "its max hold of 1m0s ends"},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process(append(s.options, WithStopBefore(stop))...)
			outer := c.lock(l, "a")
			inner := c.got(l.Lock(outer.Context(), "a"))
			if s.silent {
				defer c.jam()()
			}
			<-outer.Context().Done()
			synctest.Wait()
			left := time.Until(outer.Deadline())
			if left < stop-time.Millisecond || left > stop+time.Millisecond || !outer.Valid() || outer.Err() != nil || inner.Context().Err() == nil {
				t.Errorf("%v left, valid %v, %v, the inner context: %v", left, outer.Valid(), outer.Err(), inner.Context().Err())
			}
			cause := context.Cause(inner.Context())
			wantError(t, cause, ErrLost, s.why+": contexts canceled 5s before the deadline")
			wantError(t, errorOf(l.Lock(context.WithoutCancel(outer.Context()), "a")), ErrLost) // entered again
			if !s.silent {
				c.unlock(inner)
				c.unlock(outer)
				c.unlock(c.lock(c.process(), "a"))
				return
			}
			time.Sleep(left + time.Millisecond)
			testkit.Check(t, !outer.Valid() && errors.Is(outer.Err(), ErrLost) && outer.Err() != cause,
				"after the deadline: valid %v, %v", outer.Valid(), outer.Err())
		})
	}
}

// Masters that answer again after the contexts have ended keep the lock, and bring no context back.
func TestStopBeforeAndALateRenewal(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithStopBefore(10 * time.Second))
		lock := c.lock(l, "a")
		arrives := c.jam()
		<-lock.Context().Done()
		arrives()
		time.Sleep(3 * DefaultLease)
		testkit.Check(t, lock.Valid() && lock.Err() == nil && lock.Context().Err() != nil,
			"valid %v, %v, the context: %v", lock.Valid(), lock.Err(), lock.Context().Err())
		c.must(lock.Extend(t.Context(), DefaultLease))
		testkit.Equal(t, l.Stats().Lost, 0, "locks that are lost")
		c.unlock(lock)
	})
}

// A lock that is renewed in time ends no context: not with the longest stop, nor if its renewals are spread.
func TestStopBeforeEndsNoLockThatIsRenewed(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithStopBefore(14 * time.Second))
		var locks []*Lock
		for range 300 {
			locks = append(locks, c.lock(l, strings.Repeat("a", len(locks)+1)))
		}
		time.Sleep(10 * DefaultLease)
		for i, lock := range locks {
			require(t, lock.Context().Err() == nil, "lock %d: %v", i, context.Cause(lock.Context()))
		}
		for _, lock := range locks {
			c.unlock(lock)
		}
	})
}

func TestStopBeforeBounds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for says, options := range map[string][]Option{
			"stop before -1ns is not from 0 to 14.698s: half of the lease, less the drift of clocks": {WithStopBefore(-1)},
			"stop before 14.698000001s is not from 0 to 14.698s":                                     {WithStopBefore(14698*time.Millisecond + 1)},
			"stop before 6s is not from 0 to 4s":                                                     {WithStopBefore(6 * time.Second), WithLease(20 * time.Second), WithDrift(0.2999)},
			"stop before 6s is not from 0 to 4.898s":                                                 {WithStopBefore(6 * time.Second), WithFixedLease(10 * time.Second)},
			"stop before 3s is not below the max hold 3s":                                            {WithStopBefore(3 * time.Second), WithMaxHold(3 * time.Second)},
		} {
			wantError(t, errorOf(l.With(options...).TryLock(t.Context(), "a")), ErrInvalid, says)
		}
		held := c.lock(l.With(WithStopBefore(14*time.Second)), "a")
		// entered with another stop
		wantError(t, errorOf(l.Lock(held.Context(), "a")), ErrInvalid, "its stop before is 14s, not none")
		c.unlock(held)
	})
}

// A context that blocks as it ends delays the stop of no other, not even of the same lock.
func TestStopBeforeEndsEachContextByItself(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, ended, unblock := c.process(WithFixedLease(20*time.Second), WithStopBefore(5*time.Second)), new(atomic.Bool), make(chan struct{})
		defer close(unblock)
		outer := c.lock(l, "a")
		blocked := make(chan struct{}, 8)
		c.got(l.Lock(hookedContext{context.WithoutCancel(outer.Context()), func() { // which would end it, if it ended first
			if ended.Load() {
				blocked <- struct{}{}
				<-unblock
			}
		}}, "a"))
		ended.Store(true)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require(t, len(blocked) != 0, "nothing blocks: the test shows nothing")
		testkit.Check(t, outer.Context().Err() != nil && outer.Valid(),
			"the outer context: %v, valid %v", outer.Context().Err(), outer.Valid())
	})
}
