package quorum

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// A node that refused the attempt after it had become a lock has nothing of it: it gets no release.
func TestALateRefusalNeedsNoRelease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.rivalHas(l, 2)
		c.before(2, func() { time.Sleep(10 * time.Millisecond) })
		held := c.lock(l, "a")
		time.Sleep(20 * time.Millisecond)
		c.before(2, func() { t.Error("the node that refused was asked again") })
		c.unlock(held)
		synctest.Wait()
		c.before(2, func() {})
	})
}

// A node that refused the attempt has nothing of it, but may grant it later: by a repair or a
// re-entry.
func TestUnlockReleasesWhatWasGrantedLater(t *testing.T) {
	for what, later := range map[string]func(c *cluster, l *Locker, held *Lock){
		"repaired": func(c *cluster, l *Locker, held *Lock) {
			time.Sleep(DefaultLease / 2)
			synctest.Wait()
		},
		"entered again": func(c *cluster, l *Locker, held *Lock) {
			inner := c.got(l.Lock(held.Context(), "a"))
			synctest.Wait()
			c.unlock(inner)
		},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process()
			c.rivalHas(l, 2)
			held := c.lockKnown(l, "a")
			c.frees(l, 2, rival)
			later(c, l, held)
			testkit.Equal(t, c.owners(l)[2], held.Owner(), "the owner on the third master, which shall grant later")
			c.unlock(held)
			synctest.Wait()
			c.wantNoOwners(l)
		})
	}
}

// The masters answer that their marker must be written first when the attempt has been given up and
// its release is under way. A resent request would be granted after the release.
func TestAttemptThatIsGivenUpIsNotAskedAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		flush(c.Masters...) // the marker, too
		arrives := c.jam()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := l.TryLock(ctx, "a")
			ended <- err
		}()
		synctest.Wait()
		cancel()
		wantError(t, <-ended, context.Canceled)
		arrives()
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// Unlock, not a renewal, finds that two of three masters had forgotten the lock: so it was not held
// to the end. That holds for any order of the replies, even if the third master's comes last.
func TestUnlockReportsThatTheLockHadBeenLost(t *testing.T) {
	for late := range 3 {
		inCluster(t, func(t *testing.T, c *cluster) {
			l := c.process()
			held := c.lockKnown(l, "a")
			flush(c.Masters[0], c.Masters[2])
			c.before(late, func() { time.Sleep(100 * time.Millisecond) })
			wantError(t, held.Unlock(t.Context()), ErrLost, of{late})
		})
	}
}

// A node gets no second renewal before it has answered the first, so that requests to a slow node
// do not pile up.
func TestSlowNodeIsRenewedOnceAtATime(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		held := c.lock(c.process(WithLease(300*time.Millisecond)), "a")
		defer c.unlock(held)
		synctest.Wait()
		var calls atomic.Int64
		stalled := make(chan struct{})
		c.before(2, func() {
			calls.Add(1)
			<-stalled
		})
		time.Sleep(850 * time.Millisecond) // less than the node's timeout
		close(stalled)
		synctest.Wait()
		testkit.Equal(t, calls.Load(), 1, "calls in eight periods of renewal")
	})
}

// wantNoOwners fails the test if a master has an owner of the name "a".
func (c *cluster) wantNoOwners(l *Locker) {
	c.t.Helper()
	for i, owner := range c.owners(l) {
		if owner != "" {
			c.t.Errorf("master %d still has %s", i, owner)
		}
	}
}

// inspect is operator.Inspect, which imports this package.
func inspect(ctx context.Context, l *Locker, name string) (lockstate.Lock, error) {
	in := insideLocker{l}
	masters := lockstate.Read(ctx, l.core.Nodes, name)[0]
	errs := make([]error, len(masters))
	for i, m := range masters {
		if errs[i] = in.NodeError(i, "inspect", cmp.Or(m.Err, in.OtherList(m.Marker))); errs[i] != nil {
			masters[i] = lockstate.Master{Node: m.Node, Err: errs[i]}
		}
	}
	lockstate.Identify(ctx, l.core.Nodes, [][]lockstate.Master{masters})
	return lockstate.Judge(name, masters, l.core.Need), in.Unavailable(ctx, "inspect", name, errs)
}

// force is operator.ForceUnlockOwner of the lock's owners.
func force(ctx context.Context, l *Locker, name string) error {
	errs := make([]error, len(l.core.Nodes))
	state, _ := inspect(ctx, l, name)
	for i, n := range l.core.Nodes {
		errs[i] = inside.Of(n).Pipe(name).Do(ctx, scripts.ForceOwner(scripts.NewName(name), scripts.OwnerOf(state.Owner), l.core.maxLease)).Err
	}
	return insideLocker{l}.Unavailable(ctx, "force", name, errs)
}

// owners returns the owner of the name "a" on each master, empty for none.
func (c *cluster) owners(l *Locker) (owners []string) {
	c.t.Helper()
	state, err := inspect(context.Background(), l, "a")
	c.must(err)
	for _, n := range state.Masters {
		owners = append(owners, n.Owner)
	}
	return owners
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
		wantError(t, errorOf(inner.enter(t.Context(), l.set, []string{"a"})), ErrNotAcquired) // entered again
		wantError(t, inner.Extend(t.Context(), time.Second), ErrNotHeld)                      // extended
		wantError(t, inner.Unlock(t.Context()), ErrNotHeld)                                   // unlocked
		time.Sleep(DefaultLease)
		synctest.Wait()
		testkit.Equal(t, c.calls()-calls, 0, "calls after the release")
		c.wantNoOwners(l)
	})
}

// The masters have released the lock when the connections die. The resent release finds nothing, which is no loss.
func TestUnlockWhoseReplyIsLost(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		held := c.lockKnown(c.process(), "a")
		var ran [3]int
		for i := range c.Masters {
			c.before(i, func() {
				if ran[i]++; ran[i] == 1 {
					c.HangUp(i)
				}
			})
		}
		c.unlock(held)
		synctest.Wait()
		testkit.Check(t, min(ran[0], ran[1], ran[2]) >= 2, "the masters ran %v releases", ran)
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
