package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// restart kills a master and starts it again.
func restart(t *testing.T, m *redistest.Master) {
	t.Helper()
	must(t, m.Kill())
	must(t, m.Start())
}

// resync gives a master the dataset of an empty one, and keeps the master's connections.
func resync(t *testing.T, m *redistest.Master) {
	t.Helper()
	empty := fleet(t, 1, "--repl-diskless-sync-delay", "0").Masters[0]
	host, port, err := net.SplitHostPort(empty.Addr())
	must(t, err)
	do(t, m, "REPLICAOF", host, port)
	eventually(t, "the resync is done", func() bool {
		role, err := redis.Values(m.Do("ROLE"))
		return err == nil && string(role[3].([]byte)) == "connected"
	})
	do(t, m, "REPLICAOF", "NO", "ONE")
}

// ways in which a master forgets.
var ways = []struct {
	name     string
	maxLease time.Duration // longer than it takes, on a machine that is not too slow
	forget   func(*testing.T, *redistest.Master)
}{
	{"restart", 4 * time.Second, restart},
	{"flush", 3 * time.Second, func(t *testing.T, m *redistest.Master) { do(t, m, "FLUSHALL") }},
	{"resync", 4 * time.Second, resync},
}

// A holds on masters 1 and 2, because 3 has another owner. Then 2 forgets, and 3 becomes free: B
// could get 2 and 3. The quarantine prevents that while A holds. Without it the same schedule shows
// two holders.
func TestMasterThatForgotDoesNotVoteTwice(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, way.maxLease, func(maxLease time.Duration) bool {
				f := fleet(t, 3)
				admit(t, maxLease, soon, f.URLs()...)
				a, b := careful(t, f, redlock.Open, maxLease, nodesInTime), careful(t, f, redlock.Open, maxLease, nodesInTime)
				first, second, quarantines, answered := voteTwice(t, f, a, b, maxLease, way.forget)
				switch {
				case first == nil:
					return false
				case second != nil:
					t.Fatalf("two holders: A until %v, B until %v, now %v", first.Deadline(), second.Deadline(), time.Now())
				case quarantines == 0 && answered > 0:
					t.Errorf("%d attempts of B that all masters answered met no quarantine", answered)
				case quarantines == 0:
					t.Log("B was not answered in time")
					return false
				}
				ended := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), maxLease+patience)
				defer cancel()
				second, err := b.Lock(ctx, "bridge")
				must(t, err)
				t.Logf("%d attempts of B met the quarantine; B was granted %v after A's end", quarantines, time.Since(ended))
				if second.Token() <= first.Token() {
					t.Errorf("token %d after %d", second.Token(), first.Token())
				}
				unlock(t, second)
				return true
			})
		})
		t.Run(way.name+" without quarantine", func(t *testing.T) {
			t.Parallel()
			inTime(t, way.maxLease, func(maxLease time.Duration) bool {
				f := fleet(t, 3)
				trusting := quorum.WithNodeOptions(node.WithoutQuarantine())
				a := careful(t, f, redlock.Open, maxLease, nodesInTime, trusting)
				b := careful(t, f, redlock.Open, maxLease, nodesInTime, trusting)
				first, second, _, _ := voteTwice(t, f, a, b, maxLease, way.forget)
				if first != nil && second == nil {
					t.Error("one holder at a time: the schedule proves nothing about the quarantine")
				}
				return first != nil
			})
		})
	}
}

// voteTwice runs that schedule until A's lock ends. The second lock is not nil if B got it while A
// held: both were Valid at one time. The first is nil if its lease was over before the schedule. answered counts B's attempts
// that every master has answered.
func voteTwice(t *testing.T, f *redistest.Fleet, a, b *quorum.Locker, lease time.Duration,
	forget func(*testing.T, *redistest.Master)) (first, second *quorum.Lock, quarantines, answered int) {
	t.Helper()
	unlock(t, lock(t, b, "warm up")) // B has its connections
	do(t, f.Masters[2], "HSET", "bridge", "other:1", "1")
	do(t, f.Masters[2], "PEXPIRE", "bridge", "60000")
	// A does not renew, so it learns nothing from its masters.
	first = lock(t, a.With(quorum.WithFixedLease(lease)), "bridge")
	for i, hash := range keys(t, f.Masters, "bridge") {
		if _, ok := hash[first.Owner()]; ok != (i < 2) && first.Valid() {
			t.Fatalf("master %d: %v", i+1, hash)
		}
	}

	forget(t, f.Masters[1])
	do(t, f.Masters[2], "DEL", "bridge")
	if time.Until(first.Deadline()) < lease/4 { // B may not get to ask
		return nil, nil, 0, 0
	}
	b = b.With(quorum.WithFixedLease(lease))
	for first.Valid() {
		lock, err := b.TryLock(t.Context(), "bridge")
		var why *quorum.Error
		switch {
		case err == nil && lock.Valid() && first.Valid() && lock.Valid():
			return first, lock, quarantines, answered
		case err == nil:
			unlock(t, lock)
		case errors.As(err, &why) && why.Quarantined > 0:
			quarantines++
		case errors.As(err, &why) && why.Unknown == 0:
			answered++
		}
		time.Sleep(2 * time.Millisecond)
	}
	return first, nil, quarantines, answered
}

// database is the masters as one of their databases.
func database(f *redistest.Fleet, number int) addresses {
	var urls addresses
	for _, url := range f.URLs() {
		urls = append(urls, fmt.Sprintf("%s/%d", url, number))
	}
	return urls
}

func byURL(t *testing.T, f *redistest.Fleet, number int, maxLease time.Duration) *quorum.Locker {
	t.Helper()
	return careful(t, database(f, number), redlock.Open, maxLease, nodesInTime)
}

// pooled opens a Locker over the test's own pools: no URL names the database.
func pooled(t *testing.T, f *redistest.Fleet, number int, maxLease time.Duration) *quorum.Locker {
	t.Helper()
	var nodes []*node.Node
	for _, m := range f.Masters {
		pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", m.Addr(), redis.DialDatabase(number))
		}}
		t.Cleanup(func() { must(t, pool.Close()) })
		n, err := node.New(pool, node.WithTimeout(nodeTimeout), node.WithMaxLease(maxLease))
		must(t, err)
		t.Cleanup(func() { must(t, n.Close()) })
		nodes = append(nodes, n)
	}
	locker, err := redlock.New(nodes)
	must(t, err)
	t.Cleanup(func() { must(t, locker.Close()) })
	return locker
}

// Each database has a marker of the same process. SWAPDB moves markers with the data, under
// connections that stay.
func TestSwappedDatabasesDoNotVoteTwice(t *testing.T) {
	t.Parallel()
	const maxLease = 6 * time.Second
	for _, c := range []struct {
		what string
		open func(t *testing.T, f *redistest.Fleet, number int, maxLease time.Duration) *quorum.Locker
		one  int
		two  int
	}{
		{"by URL", byURL, 1, 2},
		{"by URL, with database 0", byURL, 0, 3},
		{"over pools", pooled, 1, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if c.what == "over pools" {
				redistest.Need(t, redistest.ClientInfo) // without it the database of a pool is taken to be 0
			}
			f := fleet(t, 3)
			admit(t, maxLease, soon, slices.Concat(database(f, c.one), database(f, c.two))...)
			a, b, other := c.open(t, f, c.one, maxLease), c.open(t, f, c.one, maxLease), c.open(t, f, c.two, maxLease)
			unlock(t, lock(t, b, "warm up")) // they have their connections, and their databases serve locks
			unlock(t, lock(t, other, "warm up"))
			first := lock(t, a.With(quorum.WithFixedLease(maxLease)), "bridge")

			onAll(t, f, "SWAPDB", c.one, c.two)
			_, err := other.TryLock(t.Context(), "ferry")
			want(t, err, quorum.ErrQuarantined)
			tries := 0
			for first.Valid() {
				second, err := b.TryLock(t.Context(), "bridge")
				if err == nil && second.Valid() && first.Valid() {
					t.Fatalf("two holders: A until %v, B until %v, now %v",
						first.Deadline(), second.Deadline(), time.Now())
				}
				if err == nil { // A's lease is over, and the quarantine with it
					unlock(t, second)
					break
				}
				want(t, err, quorum.ErrQuarantined)
				tries++
				time.Sleep(2 * time.Millisecond)
			}
			if tries < 10 {
				t.Errorf("B tried only %d times", tries)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*maxLease+patience)
			defer cancel()
			for _, l := range []*quorum.Locker{b, other} {
				next, err := l.Lock(ctx, "bridge")
				must(t, err)
				unlock(t, next)
			}
		})
	}
}
