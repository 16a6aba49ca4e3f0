package quorum

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// wantNoOwners fails the test if a master has an owner of the name "a".
func (c *cluster) wantNoOwners(l *Locker) {
	c.t.Helper()
	for i, owner := range c.owners(l) {
		testkit.Check(c.t, owner == "", "master %d still has %s", i, owner)
	}
}

// owners returns the owner of the name "a" on each master, empty for none.
func (c *cluster) owners(l *Locker) []string {
	c.t.Helper()
	state := testkit.Got(inspect(context.Background(), l, "a"))(c.t)
	return state.Owners
}

// After the release nothing that could bring a key back is sent, not even through another handle of the lock.
func TestNothingIsSentAfterTheRelease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner := c.got(l.Lock(held.Context(), "a"))
		synctest.Wait()
		c.unlock(held)
		synctest.Wait()
		calls := c.calls()
		wantError(t, errorOf(inner.enter(t.Context(), t.Context(), l.set, []string{"a"})), ErrNotAcquired) // entered again
		wantError(t, inner.Extend(t.Context(), time.Second), ErrNotHeld)                                   // extended
		wantError(t, inner.Unlock(t.Context()), ErrNotHeld)                                                // unlocked
		time.Sleep(DefaultLease)
		synctest.Wait()
		testkit.Equal(t, c.calls()-calls, 0, "calls after the release")
		c.wantNoOwners(l)
	})
}

// It is sent again after an inner handle was unlocked: the lock is still held.
func TestInnerUnlockAbandonsNoRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, answers := c.process(), make(chan struct{})
		var asked atomic.Int32
		c.before(2, func() { <-answers })
		held := c.lock(l, "a")
		c.unlock(c.got(l.Lock(held.Context(), "a")))
		c.HangUp(2)
		c.before(2, func() { asked.Add(1) })
		close(answers)
		time.Sleep(2 * shortly)
		testkit.Check(t, asked.Load() >= 3, "asked %d times: to grant, to raise the depth and to lower it are 3", asked.Load())
		c.unlock(held)
	})
}

// A request for a grant that dies with its connection is not sent again once the lock is released: it could follow the release.
func TestUnlockAbandonsRequests(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, answers := c.process(), make(chan struct{})
		c.before(2, func() { <-answers })
		held := c.lock(l, "a")
		synctest.Wait() // master 2 has the request
		c.unlock(held)
		c.HangUp(2)
		c.notAsked(2)
		close(answers)
		time.Sleep(time.Second)
	})
}
