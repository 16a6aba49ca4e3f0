package quorum

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// aPoll is above the longest poll of a waiter with the default retry bounds.
const aPoll = 1100 * time.Millisecond

// wantAsked fails the test unless the holder is asked to let go within most.
func wantAsked(t *testing.T, lock *Lock, most time.Duration) {
	t.Helper()
	select {
	case <-lock.Requested():
	case <-time.After(most):
		t.Fatalf("%v: not asked to let go after %v", lock, most)
	}
}

// wantNotAsked fails the test if the holder has been asked, or is within for.
func wantNotAsked(t *testing.T, lock *Lock, within time.Duration) {
	t.Helper()
	select {
	case <-lock.Requested():
		t.Fatalf("%v: asked to let go", lock)
	case <-time.After(within):
	}
}

// listening counts the subscriptions of holders of a name, on all masters.
func (c *cluster) listening(name string) (sum int) {
	synctest.Wait()
	for _, m := range c.masters {
		sum += m.Listening(scripts.AskChannel(name))
	}
	return sum
}

func TestAHolderIsAskedToLetGo(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		results := make(chan lockResult, 1)
		lock := c.lock(c.process(), "a")
		asked := lock.Requested()
		synctest.Wait()
		other := c.process(WithRequest())
		startWaiter(t.Context(), other, 0, results, "a")
		wantAsked(t, lock, shortly)
		testkit.Check(t, lock.Err() == nil && lock.Requested() == asked,
			"the request changed the lock (%v) or its channel", lock.Err())
		c.unlock(lock)
		next := c.nextLock(results, shortly)
		wantNotAsked(t, next, 2*aPoll) // nobody waits
		c.unlock(next)
		testkit.Equal(t, c.listening("a"), 0, "subscriptions are left")
	})
}

// Nobody asks unless it wants to, and nobody listens: a lock with waiters costs what it did.
func TestNobodyIsAskedUnasked(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		asks, results := c.count("ask"), make(chan lockResult, 1)
		lock := c.lock(c.process(WithRequest()), "a") // it does not wait
		wantError(t, errorOf(c.process(WithRequest()).TryLock(t.Context(), "a")), ErrHeld)
		startWaiter(t.Context(), c.process(), 0, results, "a")
		testkit.Equal(t, c.listening("a"), 0, "subscriptions for a holder that does not listen")
		wantNotAsked(t, lock, 2*aPoll)
		c.unlock(lock)
		c.unlock(c.nextLock(results, shortly))
		testkit.Equal(t, asks.Load(), 0, "requests to let go")
	})
}

// A holder that listens late, or whose connections died, hears the waiter's next poll.
func TestAHolderThatListensLateIsAsked(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		results := make(chan lockResult, 1)
		lock := c.lock(c.process(), "a")
		startWaiter(t.Context(), c.process(WithRequest()), 0, results, "a")
		time.Sleep(10 * time.Second)
		wantAsked(t, lock, aPoll)
		c.unlock(lock)
		lock = c.nextLock(results, shortly)

		lock.Requested()
		synctest.Wait()
		for i := range c.masters {
			c.hangUp(i)
		}
		startWaiter(t.Context(), c.process(WithRequest()), 0, results, "a")
		wantAsked(t, lock, 2*aPoll) // the connections are made again with a backoff
		c.unlock(lock)
		c.unlock(c.nextLock(results, aPoll))
	})
}

// Any one master is enough to ask, and none that is dead or stands still delays it.
func TestAHolderIsAskedPastADeadMaster(t *testing.T) {
	for dead := range 3 {
		runInCluster(t, fmt.Sprint(dead), func(t *testing.T, c *cluster) {
			results := make(chan lockResult, 1)
			holder, waiter := c.process(), c.process(WithRequest())
			c.masters[dead].Crash(fakeredis.Nothing)
			c.hangUp(dead)
			lock := c.lock(holder, "a")
			lock.Requested()
			synctest.Wait()
			startWaiter(t.Context(), waiter, 0, results, "a")
			wantAsked(t, lock, shortly)
			c.unlock(lock)
			c.unlock(c.nextLock(results, aPoll))
		})
	}
}

// However a lock ends, its subscriptions end with it, and the channel stays as it was.
func TestAHolderListensUntilItsLockEnds(t *testing.T) {
	for how, end := range map[string]func(c *cluster, l *Locker, lock *Lock){
		"unlocked": func(c *cluster, _ *Locker, lock *Lock) { c.unlock(lock) },
		"closed":   func(_ *cluster, l *Locker, _ *Lock) { l.Close() },
		"lost": func(c *cluster, _ *Locker, _ *Lock) {
			flush(c.masters...)
			time.Sleep(DefaultLease)
		},
		"handed over": func(c *cluster, _ *Locker, lock *Lock) {
			c.must(errorOf(lock.HandOver(c.t.Context())))
		},
		"interrupted": func(_ *cluster, _ *Locker, lock *Lock) { lock.handle.Hold().Interrupt() },
	} {
		runInCluster(t, how, func(t *testing.T, c *cluster) {
			l := c.process()
			lock, late := c.lock(l, "a", "b"), c.lock(l, "c")
			lock.Requested()
			if a, b := c.listening("a"), c.listening("b"); a != 3 || b != 3 {
				t.Fatalf("%d and %d subscriptions, want 3 of each name", a, b)
			}
			end(c, l, lock)
			if a, b := c.listening("a"), c.listening("b"); a != 0 || b != 0 {
				t.Errorf("%d and %d subscriptions are left", a, b)
			}
			if how != "closed" && how != "lost" {
				c.unlock(late)
			}
			late.Requested() // no longer subscribes
			testkit.Equal(t, c.listening("c"), 0, "subscriptions of a lock that has ended")
			wantNotAsked(t, lock, time.Second)
		})
	}
}

// A lock that lingers stays on the nodes, but its holder is gone.
func TestALingeringLockListensNoMore(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		lock := c.lock(c.process(WithMinHold(10*time.Second)), "a")
		lock.Requested()
		testkit.Equal(t, c.listening("a"), 3, "subscriptions")
		c.unlock(lock)
		testkit.Equal(t, c.listening("a"), 0, "subscriptions are left")
	})
}

// All handles of a lock have one channel. A request is for the whole lock, at any level.
func TestEachHandleOfALockIsAsked(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, results := c.process(), make(chan lockResult, 1)
		lock := c.lock(l, "a", "b")
		inner := c.got(l.Lock(lock.Context(), "b"))
		testkit.Equal(t, inner.Requested(), lock.Requested(), "the channel of the inner handle")
		c.unlock(inner)
		startWaiter(t.Context(), c.process(WithRequest()), 0, results, "b", "c")
		wantAsked(t, lock, shortly+aPoll)
		wantAsked(t, inner, time.Millisecond)
		c.unlock(lock)
		c.unlock(c.nextLock(results, aPoll))
	})
}

// A writer asks all readers, a waiter for a slot all who have one.
func TestAllWhoHoldAreAsked(t *testing.T) {
	for what, acquire := range map[string]struct {
		share, want func(ctx context.Context, l *Locker) (*Lock, error)
	}{
		"readers": {
			func(ctx context.Context, l *Locker) (*Lock, error) { return l.RWLock("a").RLock(ctx) },
			func(ctx context.Context, l *Locker) (*Lock, error) { return l.RWLock("a").Lock(ctx) },
		},
		"slots": {
			func(ctx context.Context, l *Locker) (*Lock, error) { return l.Semaphore("a", 2).Acquire(ctx) },
			func(ctx context.Context, l *Locker) (*Lock, error) { return l.Semaphore("a", 2).AcquireN(ctx, 2) },
		},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			mine := c.process(WithRequest())
			var held []*Lock
			for _, l := range []*Locker{mine, c.process()} { // one of the asking process, and another
				lock, err := acquire.share(t.Context(), l)
				c.must(err)
				held = append(held, lock)
				lock.Requested()
			}
			synctest.Wait()
			results := make(chan lockResult, 1)
			start(0, results, func() (*Lock, error) { return acquire.want(t.Context(), mine) })
			for _, lock := range held {
				wantAsked(t, lock, shortly)
				c.unlock(lock)
			}
			got := c.nextLock(results, aPoll)
			got.Requested()
			synctest.Wait()
			// A master that stood still hands on now what the waiter asked before it held.
			for _, m := range c.masters {
				m.Publish(scripts.AskChannel(got.handle.Hold().Key()), "*"+c.beforeOwner(got))
			}
			wantNotAsked(t, got, aPoll)
			c.unlock(got)
		})
	}
}

// beforeOwner returns the id of the owner that the lock's locker made before the lock's.
func (c *cluster) beforeOwner(lock *Lock) string {
	return fmt.Sprintf("%s:%d", lock.core.UUID, lastOwner(&Locker{core: lock.core})-1)
}

// A request for one owner that arrives late does not ask the next.
func TestALateRequestAsksNobodyElse(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		first := c.lock(l, "a")
		c.unlock(first)
		second := c.lock(l, "a")
		second.Requested()
		synctest.Wait()
		for _, m := range c.masters {
			m.Publish(scripts.AskChannel("a"), first.Owner())
		}
		wantNotAsked(t, second, shortly)
		c.masters[2].Publish(scripts.AskChannel("a"), second.Owner())
		wantAsked(t, second, shortly)
		c.unlock(second)
	})
}

// A waiter asks its own process's next holder when that one acquires, without a poll in between.
func TestAWaiterAsksTheNextHolderOfItsProcess(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		held, results := c.lock(c.process(), "a"), make(chan lockResult, 3)
		l := c.process()
		asking := l.With(WithRequest())
		startWaiter(t.Context(), l, 0, results, "a")
		ctx, cancel := context.WithCancel(t.Context())
		startWaiter(ctx, asking, 1, results, "a")
		startWaiter(t.Context(), asking, 2, results, "a")
		cancel() // it takes only its own wish along
		got := c.next(results, shortly)
		require(t, got.waiter == 1, "waiter %d came first: %v", got.waiter, got.err)
		wantAsked(t, held, 2*aPoll) // the head asks for those behind it
		c.unlock(held)
		first := c.next(results, shortly)
		wantAsked(t, first.lock, time.Millisecond)
		c.unlock(first.lock)
		last := c.next(results, shortly)
		wantNotAsked(t, last.lock, aPoll)
		c.unlock(last.lock)
	})
}
