//go:build unix

package quorum

import (
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
)

// Many waiters may leave at once, in any order: the time for one does not grow with the length of
// the queue.
func TestQueueIsLeftByManyAtOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection isn't part of leaving
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute), withClock(fakeclock.Monotonic()))
		held := c.lock(c.process(), "a")
		leaving := func(n int) (took time.Duration) {
			for range 3 { // the shortest time: a core slows down, too
				all := make([]*queue.Place, n)
				for i := range all {
					all[i] = l.joins()
				}
				began := processorTime(t)
				for _, w := range slices.Backward(all) {
					w.Leave()
				}
				if once := processorTime(t) - began; took == 0 || once < took {
					took = once
				}
				c.wantNoQueues(l)
			}
			return took
		}
		if few, many := leaving(1_000), leaving(20_000); many > 150*few { // 20 times as many
			t.Errorf("1,000 leave in %v, 20,000 in %v", few, many)
		}
		c.unlock(held)
	})
}

// processorTime returns how long this process has used a processor. Other programs don't count.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
