package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
)

// A slot costs what a lock costs, if there is no contention.
func TestASlotCostsALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]region{regionA, regionA, regionA}, commandTakes(t))
		defer w.end()
		testkit.Must(t, w.found())
		locker := mustOpen(t, w, "one")
		defer locker.Close()
		semaphore := locker.Semaphore("s", 4)
		took := func(take func() (*quorum.Lock, error)) time.Duration {
			began := time.Now()
			for range 100 {
				held, err := take()
				testkit.Must(t, err)
				testkit.Must(t, held.Unlock(t.Context()))
			}
			return time.Since(began)
		}
		locks := took(func() (*quorum.Lock, error) { return locker.Lock(t.Context(), "k") })
		slots := took(func() (*quorum.Lock, error) { return semaphore.Acquire(t.Context()) })
		t.Logf("100 pairs of a lock %v, of a slot %v", locks, slots)
		if 4*slots > 5*locks {
			t.Errorf("100 pairs of a slot take %v, of a lock %v", slots, locks)
		}
	})
}
