package integration_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Readers of several lockers take turns while writers come: no writer holds beside anybody, and none
// starves although the readers never leave the name free.
func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	var readers, writers, reads, writes, together atomic.Int64
	begin := func(n *atomic.Int64) {
		n.Add(1)
		if readers.Load() > 1 {
			together.Add(1)
		}
		if w := writers.Load(); w > 1 || w == 1 && readers.Load() > 0 {
			t.Errorf("%d writers beside %d readers", w, readers.Load())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	done := make(chan struct{})
	var all, allWriters sync.WaitGroup
	for range 3 {
		rw := open(t, f, redlock.Open).RWLock("k")
		for range 2 {
			all.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					held, err := rw.RLock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					begin(&readers)
					pass(t, 20*time.Millisecond)
					readers.Add(-1)
					reads.Add(1)
					unlock(t, held)
				}
			})
		}
		allWriters.Go(func() {
			highest := uint64(0)
			for range 5 {
				held, err := rw.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				begin(&writers)
				if held.Token() <= highest {
					t.Errorf("token %d after %d", held.Token(), highest)
				}
				highest = held.Token()
				pass(t, 5*time.Millisecond)
				writers.Add(-1)
				writes.Add(1)
				unlock(t, held)
			}
		})
	}
	allWriters.Wait()
	close(done)
	all.Wait()
	t.Logf("%d writes, %d reads, %d of them beside others", writes.Load(), reads.Load(), together.Load())
	if together.Load() == 0 {
		t.Error("no reader read beside another")
	}
	noLocks(t, f.Masters)
}

// At a name that readers hold, a client that knows no readers gets an error, and takes nothing away.
func TestAClientThatKnowsNoReaders(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	held, err := open(t, f, redlock.Open).RWLock("k").RLock(t.Context())
	must(t, err)
	eventually(t, patience, func() bool { return len(allLocks(t, f.Masters)) == 3 }, "the grants of all masters")
	for _, m := range f.Masters {
		if _, err := m.Do("HSET", "k", peerOwner, 1); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("another client's HSET: %v", err)
		}
	}
	if !held.Valid() {
		t.Error(held.Err())
	}
	unlock(t, held)
}

// The recipe's user may read. Without the right to sorted sets, plain locks work as before, a reader is
// refused for good, and a downgrade takes nothing from the masters.
func TestReadersNeedSortedSets(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	may(t, f, "app:*")
	l := open(t, asApp(f), redlock.Open)
	reader, err := l.RWLock("app:1").RLock(t.Context())
	must(t, err)
	unlock(t, reader)
	writer := lock(t, l, "app:1")
	must(t, writer.Downgrade(t.Context()))
	unlock(t, writer)

	noLocks(t, f.Masters) // the releases need the right, too

	onAll(t, f, "ACL", "SETUSER", "app", "-@sortedset")
	if _, err := l.RWLock("app:1").RLock(t.Context()); !errors.Is(err, quorum.ErrPermanent) {
		t.Errorf("RLock: %v", err)
	}
	held := lock(t, l, "app:2")
	grantedByAll(t, f.Masters, "app:2")
	if err := held.Downgrade(t.Context()); err == nil || !held.Valid() {
		t.Errorf("Downgrade: %v; valid %v", err, held.Valid())
	}
	grantedByAll(t, f.Masters, "app:2")
	unlock(t, held)
	noLocks(t, f.Masters)
}

// Masters that are out of memory renew and release readers, as they do writers, and lower a writer.
func TestReadersWhileMastersAreOutOfMemory(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	f := fleet(t, 3)
	l := open(t, f, redlock.Open, quorum.WithLease(lease))
	first, err := l.RWLock("r").RLock(t.Context())
	must(t, err)
	second, err := l.RWLock("r").RLock(t.Context())
	must(t, err)
	writer := lock(t, l, "w")
	grantedByAll(t, f.Masters, "w")
	onAll(t, f, "CONFIG", "SET", "maxmemory", "1")
	must(t, writer.Downgrade(t.Context()))
	outlives(t, first, lease, 1.5)
	areRenewed(t, lease, second, writer)
	unlock(t, first)
	unlock(t, second)
	unlock(t, writer)
	onAll(t, f, "CONFIG", "SET", "maxmemory", "0")
	noLocks(t, f.Masters)
}
