package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	operators "github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// database is the masters as one of their databases.
func database(f *redistest.Fleet, number int) addresses {
	var urls addresses
	for _, url := range f.URLs() {
		urls = append(urls, fmt.Sprintf("%s/%d", url, number))
	}
	return urls
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
		open func(t *testing.T, f *redistest.Fleet, number int) *quorum.Locker
		one  int
		two  int
	}{
		{"by URL", func(t *testing.T, f *redistest.Fleet, number int) *quorum.Locker {
			return careful(t, database(f, number), redlock.Open, maxLease)
		}, 1, 2},
		{"by URL, with database 0", func(t *testing.T, f *redistest.Fleet, number int) *quorum.Locker {
			return careful(t, database(f, number), redlock.Open, maxLease)
		}, 0, 3},
		{"over pools", func(t *testing.T, f *redistest.Fleet, number int) *quorum.Locker {
			return pooled(t, f, number, maxLease)
		}, 1, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if c.what == "over pools" {
				redistest.Need(t, redistest.ClientInfo) // without it the database of a pool is taken to be 0
			}
			f := fleet(t, 3)
			for _, number := range []int{c.one, c.two} {
				for _, url := range database(f, number) {
					n, err := node.Open(url, node.WithMaxLease(maxLease), node.WithTimeout(soon))
					must(t, err)
					must(t, operators.Admit(t.Context(), n))
					must(t, n.Close())
				}
			}
			a, b, other := c.open(t, f, c.one), c.open(t, f, c.one), c.open(t, f, c.two)
			unlock(t, lock(t, b, "warm up")) // they have their connections, and their databases serve locks
			unlock(t, lock(t, other, "warm up"))
			first := lock(t, a.With(quorum.WithFixedLease(maxLease)), "bridge")

			onAll(t, f, "SWAPDB", c.one, c.two)
			_, err := other.TryLock(t.Context(), "ferry")
			wantErr(t, err, quorum.ErrQuarantined)
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
				wantErr(t, err, quorum.ErrQuarantined)
				tries++
				pass(t, 2*time.Millisecond)
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
