package quorum

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

const oneMinHold = time.Second

// wantUnlocked fails the test unless the handle is unlocked for all that its owner can see.
func (c *cluster) wantUnlocked(l *Lock) {
	c.t.Helper()
	cause := context.Cause(l.Context())
	if l.Valid() || l.Depth() != 0 || !errors.Is(l.Err(), ErrReleased) || !errors.Is(cause, ErrReleased) {
		c.t.Errorf("valid %v, depth %d, %v, context %v", l.Valid(), l.Depth(), l.Err(), cause)
	}
	if err := l.Unlock(context.Background()); !errors.Is(err, ErrNotHeld) {
		c.t.Errorf("Unlock again: %v", err)
	}
}

// A lock that is unlocked early returns at once, and nobody gets it before its min hold is over: not this process
// either. Those that wait get it then.
func TestMinHoldKeepsALockThatIsUnlockedEarly(t *testing.T) {
	for what, opt := range map[string]Option{
		"a short lease":            WithLease(100 * time.Millisecond),
		"a long lease":             WithLease(20 * time.Second),
		"a fixed lease":            WithFixedLease(20 * time.Second),
		"the shortest fixed lease": WithFixedLease(1013 * time.Millisecond),
		"a max hold as long as it": WithMaxHold(oneMinHold),
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			released := 0
			count := WithHooks(Hooks{
				Released: func(*Lock) { released++ },
				Lost:     func(_ *Lock, err error) { t.Error("lost", err) },
			})
			l, other := c.process(), c.process()
			began := time.Now()
			held := c.lock(l.With(opt, count, WithMinHold(oneMinHold)), "a")
			inner := c.lock(l.With(opt, count, WithMinHold(oneMinHold)), "b")
			again := c.got(l.With(opt, WithMinHold(oneMinHold)).Lock(inner.Context(), "b"))
			c.unlock(inner)
			c.wantUnlocked(again)
			c.unlock(held)
			if l, found := FromContext(held.Context(), "a"); found {
				t.Errorf("its context leads to %v", l)
			}
			if took := time.Since(began); took != 0 || released != 2 {
				t.Errorf("Unlock took %v, and %d hooks ran", took, released)
			}
			for time.Since(began) < oneMinHold-shortly {
				c.wantUnlocked(held)
				for _, name := range []string{"a", "b"} {
					for _, l := range []*Locker{l, other} {
						wantError(t, errorOf(l.TryLock(t.Context(), name)), ErrHeld, of{time.Since(began)})
					}
				}
				time.Sleep(shortly / 2) // of the bubble's time
			}
			results := make(chan lockResult, 1)
			startWaiter(t.Context(), other, 1, results, "a", "b")
			next := c.next(results, oneMinHold)
			if took := time.Since(began); next.err != nil || took < oneMinHold || took > oneMinHold+shortly {
				t.Fatalf("the next got it after %v: %v", took, next.err)
			}
			c.unlock(next.lock)
			testkit.Equal(t, released, 2, "hooks that ran for two locks")
			c.wantNothingScheduled(l)
			c.wantNothingLeft(l)
		})
	}
}

// Nothing renews a fixed lease, and masters whose clocks run fast end it early. Every min hold that is accepted is
// still kept.
func TestMinHoldOfAFixedLeaseOnFastMasters(t *testing.T) {
	const lease = 20 * time.Second
	longest := lease - clock.Drift(lease, clock.DefaultDriftFactor)
	for minHold, accepted := range map[time.Duration]bool{longest: true, longest + 1: false, lease: false} {
		inCluster(t, func(t *testing.T, c *cluster) {
			c.rate = 1 + clock.DefaultDriftFactor
			l, other := c.process(WithFixedLease(lease)), c.process()
			began := time.Now()
			held, err := l.With(WithMinHold(minHold)).TryLock(t.Context(), "a")
			testkit.Check(t, errors.Is(err, ErrInvalid) != accepted,
				"min hold %v of a fixed lease of %v: %v", minHold, lease, err)
			if err != nil {
				return
			}
			c.unlock(held)
			next := c.got(other.Lock(t.Context(), "a"))
			took := time.Since(began)
			testkit.Check(t, took >= minHold, "the next got it %v before the min hold was over", minHold-took)
			c.unlock(next)
		})
	}
}

// Two schedulers whose ticks are skewed run a job once in each period.
func TestMinHoldRunsAJobOncePerPeriod(t *testing.T) {
	// The second is the control.
	for minHold, want := range map[time.Duration]int{8 * time.Second: 5, time.Millisecond: 10} {
		inCluster(t, func(t *testing.T, c *cluster) {
			const period, skew = 10 * time.Second, 3 * time.Second
			ran := 0
			tick := func(l *Locker) {
				if lock, err := l.TryLock(t.Context(), "a"); err == nil {
					ran++
					c.unlock(lock)
				} else if !errors.Is(err, ErrHeld) {
					t.Error(err)
				}
			}
			one, two := c.process(WithMinHold(minHold)), c.process(WithMinHold(minHold))
			for range 5 {
				tick(one)
				time.Sleep(skew) // of the bubble's time
				tick(two)
				time.Sleep(period - skew)
			}
			testkit.Check(t, ran == want, "with a min hold of %v it ran %d times, want %d", minHold, ran, want)
		})
	}
}

// A lock that was held for longer than its min hold is released by Unlock, which waits for the nodes.
func TestMinHoldThatIsOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithMinHold(oneMinHold))
		held := c.lock(l, "a")
		time.Sleep(oneMinHold) // of the bubble's time
		c.unlock(held)
		synctest.Wait() // Unlock does not wait for the last node
		c.wantNoOwners(l)
		c.wantNothingScheduled(l)
		c.wantUnlocked(held)
	})
}

// Close leaves the keys to their leases, and nothing renews them after it.
func TestMinHoldWhenTheLockerIsClosed(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 300 * time.Millisecond
		l, other := c.process(WithLease(lease), WithMinHold(time.Hour)), c.process()
		held := c.lock(l, "a")
		inner := c.got(l.Lock(held.Context(), "a"))
		working := c.lock(l, "b")
		c.unlock(held)
		time.Sleep(10 * lease) // of the bubble's time
		l.Close()
		wantError(t, working.Unlock(t.Context()), ErrClosed)            // Unlock after Close
		wantError(t, working.Unlock(t.Context()), ErrNotHeld)           // Unlock again after Close
		wantError(t, errorOf(other.TryLock(t.Context(), "b")), ErrHeld) // unlocked just after Close
		c.wantUnlocked(held)
		c.wantUnlocked(inner)
		wantError(t, errorOf(other.TryLock(t.Context(), "a")), ErrHeld) // just after Close
		time.Sleep(lease + time.Millisecond)
		synctest.Wait() // Unlock does not wait for the last node
		c.wantNoOwners(other)
	})
}

// A node that forgot the lock during its min hold is asked to grant it again.
func TestMinHoldRepairs(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithLease(300*time.Millisecond), WithMinHold(time.Hour))
		c.unlock(c.lock(l, "a"))
		for _, m := range c.masters {
			m.Flush()
			time.Sleep(10 * time.Second) // of the bubble's time
		}
		for i, owner := range c.owners(l) {
			testkit.Check(t, owner != "", "master %d does not keep it", i)
		}
	})
}

// A lock that a renewal during the min hold finds missing is repaired soon, not a third of the lease later.
func TestMinHoldRepairsSoon(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithLease(3*time.Second), WithMinHold(time.Hour))
		c.unlock(c.lock(l, "a"))
		c.masters[0].Flush()
		time.Sleep(3 * time.Second / 2) // of the bubble's time: the renewal was due after a second
		testkit.Check(t, c.owners(l)[0] != "", "the master that forgot it was not asked again")
	})
}

// A min hold ends early when a majority does not keep the lock: nothing renews the rest of it.
func TestMinHoldThatIsForced(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(WithLease(300*time.Millisecond), WithMinHold(time.Hour)), c.process()
		c.unlock(c.lock(l, "a"))
		c.must(other.ForceUnlock(t.Context(), "a"))
		next := c.lock(other, "a")
		time.Sleep(time.Second) // of the bubble's time
		c.wantNothingScheduled(l)
		testkit.Check(t, next.Valid(), "%v", next.Err())
		c.unlock(next)
		synctest.Wait() // Unlock does not wait for the last node
		c.wantNoOwners(l)
	})
}

// Locks that are held, or in their min hold, share the schedule's timer: none has a goroutine.
func TestMinHoldTakesNoGoroutine(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithMinHold(time.Minute))
		c.unlock(c.lock(l, "a"))
		synctest.Wait()
		before := runtime.NumGoroutine()
		var held []*Lock
		for i := range 200 {
			held = append(held, c.lock(l, fmt.Sprint("held ", i)))
			c.unlock(c.lock(l, fmt.Sprint(i)))
		}
		synctest.Wait()
		now := runtime.NumGoroutine()
		testkit.Check(t, now <= before+20, "%d goroutines became %d", before, now)
		for _, lock := range held {
			c.unlock(lock)
		}
		time.Sleep(time.Minute) // of the bubble's time
		synctest.Wait()
		c.wantNothingScheduled(l)
		c.wantNoOwners(l)
	})
}

// A min hold out of bounds is refused, also through With, and so is re-entry with another one.
func TestMinHoldBounds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for _, bad := range []struct {
			words string
			opts  []Option
		}{
			{"min hold 0s is not above 0 and at most", []Option{WithMinHold(0)}},
			{"min hold -1s is not above 0 and at most", []Option{WithMinHold(-time.Second)}},
			{"min hold 8760h0m0.000000001s is not above 0 and at most 8760h0m0s", []Option{WithMinHold(maxMaxHold + 1)}},
			{"above the max hold 1s", []Option{WithMinHold(time.Second + 1), WithMaxHold(time.Second)}},
			{"min hold 988.000001ms is above 988ms: the fixed lease 1s less the drift of clocks",
				[]Option{WithFixedLease(time.Second), WithMinHold(988*time.Millisecond + 1)}},
			{"min hold 500ms is above 498ms: the fixed lease 1s less the drift of clocks",
				[]Option{WithFixedLease(time.Second), WithDrift(0.5), WithMinHold(500 * time.Millisecond)}},
		} {
			wantError(t, errorOf(l.With(bad.opts...).TryLock(t.Context(), "a")), ErrInvalid, bad.words)
		}
		held := c.lock(l.With(WithMinHold(maxMaxHold)), "a")
		wantError(t, errorOf(l.Lock(held.Context(), "a")), ErrInvalid, "its min hold is 8760h0m0s, not none")
	})
}

// The next holder could unlock before the min hold is over, so no ticket is given.
func TestMinHoldIsNotHandedOver(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		other, began := c.process(), time.Now()
		held := c.lock(c.process(WithMinHold(oneMinHold)), "a")
		ticket, err := held.HandOver(t.Context())
		wantError(t, err, ErrInvalid, "min hold")
		if err == nil {
			held = c.got(other.TakeOver(t.Context(), ticket))
		}
		testkit.Check(t, held.Err() == nil, "the lock is not as before: %v", held.Err())
		c.unlock(held)
		next, took := c.got(other.Lock(t.Context(), "a")), time.Since(began)
		testkit.Check(t, took >= oneMinHold, "the next got it after %v", took)
		c.unlock(next)
	})
}
