package integration_test

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

// Sentinel makes a master of a replica, and then a replica of the old master. A locker follows, with locks of before and
// after, though one of three sentinels stands still and another is dead.
func TestSentinelMovesTheMaster(t *testing.T) {
	t.Parallel()
	sentinels, err := failover.Start(1, 1)
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("SKIPPED, needs redis-server: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, sentinels.Stop()) })
	locker := careful(t, addresses(sentinels.URLs()), redlock.Open, forgetLease)
	unlock(t, lock(t, locker, "before"))
	group := sentinels.Groups[0]
	replica := group.Servers[1]
	eventually(t, "the replica is promoted", func() bool {
		if now, err := group.Primary(); err == nil && now == replica {
			return true
		}
		_ = group.Failover() // refused while one is under way, which may fail on a busy machine
		return false
	})
	eventually(t, "the old master is a replica", group.Whole) // Sentinel ends its connections then

	must(t, sentinels.Watchers[0].Freeze())
	must(t, sentinels.Watchers[1].Kill())
	held := lock(t, locker, "after")
	eventually(t, "granted by the promoted server", func() bool {
		grant, err := redis.StringMap(replica.Do("HGETALL", "after"))
		return err == nil && len(grant) > 0
	})
	unlock(t, held)
}
