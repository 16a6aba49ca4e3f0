package quorum

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
