package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// sentinelBound is longer than sentinels need to find one another, 2 s, and for a failover.
const sentinelBound = 30 * time.Second

// SentinelFleet has processes of Redis Sentinel, each of which can be frozen, killed and started like a master.
type SentinelFleet []*redistest.Master

// Sentinels starts n sentinels that watch masters, by the names that they give them, and replace one that does not answer
// for downAfter if most of them agree. They end with the test. They know one another and the masters' replicas, which must
// be connected before. After a failover they make the old master a replica once it has been none for 8 s.
func Sentinels(t testing.TB, n int, downAfter time.Duration, masters map[string]*redistest.Master) SentinelFleet {
	t.Helper()
	config := ""
	for name, m := range masters {
		host, port, _ := net.SplitHostPort(m.Addr())
		config += fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s %[4]d\nsentinel down-after-milliseconds %[1]s %[5]d\nsentinel failover-timeout %[1]s %[6]d\n",
			name, host, port, n/2+1, downAfter.Milliseconds(), 4*downAfter.Milliseconds())
	}
	all, dir := make(SentinelFleet, n), t.TempDir()
	for i := range all {
		file := filepath.Join(dir, fmt.Sprint(i, ".conf")) // a sentinel keeps its state there
		Must(t, os.WriteFile(file, []byte(config), 0o600))
		all[i] = Real(t, 1, file, "--sentinel").Masters[0]
	}
	for name, m := range masters {
		replicas := Info(t, m, "replication", "connected_slaves")
		for _, sentinel := range all {
			if !poll.Until(sentinelBound, func() bool {
				known, err := redis.StringMap(sentinel.Do("SENTINEL", "MASTER", name))
				return err == nil && known["flags"] == "master" && known["num-other-sentinels"] == fmt.Sprint(n-1) && known["num-slaves"] == replicas
			}) {
				t.Fatalf("%s does not know the other sentinels and the replicas of %s within %v", sentinel.Addr(), name, sentinelBound)
			}
		}
	}
	return all
}

// URL returns the URL of one of the masters that has so many replicas.
func (f SentinelFleet) URL(name string, replicas int) string {
	var addrs []string
	for _, s := range f {
		addrs = append(addrs, s.Addr())
	}
	return fmt.Sprintf("redis+sentinel://%s/%s?failover=%d", strings.Join(addrs, ","), name, replicas)
}

// Named returns the address of a master that a sentinel names.
func (f SentinelFleet) Named(t testing.TB, i int, name string) string {
	t.Helper()
	at, err := redis.Strings(f[i].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
	Must(t, err)
	return strings.Join(at, ":")
}

// Failover has a sentinel replace a master that works by one of its replicas, and returns when all name that.
func (f SentinelFleet) Failover(t testing.TB, name string) {
	t.Helper()
	before := f.Named(t, 0, name)
	Do(t, f[0], "SENTINEL", "FAILOVER", name)
	for i := range f {
		if !poll.Until(sentinelBound, func() bool { return f.Named(t, i, name) != before }) {
			t.Fatalf("%s names %s after %v", f[i].Addr(), before, sentinelBound)
		}
	}
}
