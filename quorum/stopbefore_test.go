package quorum

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
			testkit.Require(t, lock.Context().Err() == nil, "lock %d: %v", i, context.Cause(lock.Context()))
		}
		for _, lock := range locks {
			c.unlock(lock)
		}
	})
}

// A context that blocks as it ends delays the stop of no other, not even of the same lock.
func TestStopBeforeEndsEachContextByItself(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, ended, unblock := c.process(WithFixedLease(20*time.Second), WithStopBefore(5*time.Second)), new(atomic.Bool), make(chan struct{})
		defer close(unblock)
		outer := c.lock(l, "a")
		blocked := make(chan struct{}, 8)
		c.got(l.Lock(watched(context.WithoutCancel(outer.Context()), func() { // which would end it, if it ended first
			if ended.Load() {
				blocked <- struct{}{}
				<-unblock
			}
		}, "Done"), "a"))
		ended.Store(true)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		testkit.Require(t, len(blocked) != 0, "nothing blocks: the test shows nothing")
		testkit.Check(t, outer.Context().Err() != nil && outer.Valid(),
			"the outer context: %v, valid %v", outer.Context().Err(), outer.Valid())
	})
}
