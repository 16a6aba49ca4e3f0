package quorum

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
		c.wantNothingLeft(l)
	})
}
