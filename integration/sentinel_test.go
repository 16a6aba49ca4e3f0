package integration_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The sentinels that tests start do what tests need them for: they name the master, and what takes its place.
func TestSentinelsOfTests(t *testing.T) {
	t.Parallel()
	pair := fleet(t, 2, atOnce...)
	old, replica := pair.Masters[0], pair.Masters[1]
	follows(t, replica, old)
	sentinels := testkit.Sentinels(t, 3, time.Second, map[string]*redistest.Master{"locks": old})
	testkit.Equal(t, sentinels.Named(t, 1, "locks"), old.Addr(), "named")
	sentinels.Failover(t, "locks")
	testkit.Equal(t, sentinels.Named(t, 2, "locks"), replica.Addr(), "named after a failover")
}
