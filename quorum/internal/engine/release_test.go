package engine

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Reservations that can no longer be ended keep no Locker from closing: the end of the test waits for it.
func TestWithdrawAfterTheNodesAreClosed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.newHold(terms(time.Second), "a")
		for _, n := range c.Nodes {
			n.Close()
		}
		h.Withdraw()
	})
}

// A lock that is released because the caller's code has panicked counts as unlocked.
func TestInterruptUnlocks(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		h := c.lock(t)
		h.Interrupt()
		testkit.Check(t, h.First().IsUnlocked(), "it is not")
		c.wantNoOwners(t)
	})
}
