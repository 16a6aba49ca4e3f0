package quorum

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
)

// readClock counts how often it is read.
type readClock struct {
	clock.Clock
	reads atomic.Int64
}

func (c *readClock) Now() clock.Instant {
	c.reads.Add(1)
	return c.Clock.Now()
}

// A lock and its release read the clock four times: when the call begins, before the requests are
// sent, at the commit and at the release. Each reading is a system call.
func TestClockReadsOfAPair(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		counted := &readClock{Clock: fakeclock.Monotonic()}
		l := c.process(withClock(counted))
		c.unlock(c.lock(l, "a")) // timers are set, and the rtt has its sample
		synctest.Wait()
		before := counted.reads.Load()
		c.unlock(c.lock(l, "a"))
		if n := counted.reads.Load() - before; n != 4 {
			t.Errorf("the clock is read %d times", n)
		}
	})
}
