package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/redlock"
)

// Sentinel makes a master of a replica, and then a replica of the old master. A locker follows, with locks of before and
// after, though one of three sentinels stands still and another is dead.
func TestSentinelMovesTheMaster(t *testing.T) {
	t.Parallel()
	pair := fleet(t, 2, atOnce...)
	old, replica := pair.Masters[0], pair.Masters[1]
	follows(t, replica, old)
	sentinels := testkit.Sentinels(t, 3, time.Second, map[string]*redistest.Master{"locks": old})
	locker := careful(t, addresses{sentinels.URL("locks", 1)}, redlock.Open, forgetLease)
	unlock(t, lock(t, locker, "before"))
	sentinels.Failover(t, "locks")
	eventually(t, "the old master is a replica", func() bool { // Sentinel ends its connections then
		info, err := redis.String(old.Do("INFO", "replication"))
		return err == nil && strings.Contains(info, "role:slave")
	})

	must(t, sentinels[0].Freeze())
	must(t, sentinels[1].Kill())
	held := lock(t, locker, "after")
	grantedByAll(t, []*redistest.Master{replica}, "after")
	unlock(t, held)
}
