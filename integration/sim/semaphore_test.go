package sim

import (
	"context"
	"flag"
	"testing"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

var semaphoreSeeds = flag.Int("sim.semaphores", 40, "how many seeds TestSemaphores runs, from 1 on")

// semaphore is the name of the semaphore in the plans that have one.
const semaphore = "s"

// The same must hold for each slot of a semaphore. A slot's number is below the number of slots that its
// holder said, so there are never more holders than slots.
func TestSemaphores(t *testing.T) {
	judgeSeeds(t, *semaphoreSeeds, newSemaphorePlan).want(t, 40, map[string]float64{"acquired": 10, "several slots": 1,
		"fewer slots said": 0.5, "held": 0.5, "lost": 0.1, string(crash): 0.5, string(kill): 0.2})
}

// takesSlots returns a call for one or two slots of the plan's semaphore, with or without waiting. Some
// calls say a smaller number of slots.
func (f *flow) takesSlots(locker *quorum.Locker) func(context.Context, ...string) (*quorum.Lock, error) {
	said := f.world.plan.slots
	if said > 1 && f.rng.IntN(6) == 0 {
		said--
		f.world.count("fewer slots said")
	}
	k := 1
	if said > 1 && f.rng.IntN(4) == 0 {
		k = 2
	}
	s := locker.Semaphore(semaphore, said)
	acquire := s.AcquireN
	if f.rng.IntN(4) == 0 {
		acquire = s.TryAcquireN
	}
	return func(ctx context.Context, _ ...string) (*quorum.Lock, error) {
		lock, err := acquire(ctx, k)
		if err != nil {
			return nil, err
		}
		if k > 1 {
			f.world.count("several slots")
		}
		if all := lock.Slots(); len(all) != k || all[0] < 0 || all[k-1] >= said || k > 1 && all[0] == all[1] {
			f.world.fail("client %d: %s has slots %v, where %d of %d were asked for", f.machine.id, lock.Owner(), all, k, said)
		}
		return lock, nil
	}
}

// keysOf returns the names that the lock is judged by: of a slot its key.
func keysOf(lock *quorum.Lock) []string {
	if lock.Slot() < 0 {
		return lock.Names()
	}
	return scripts.SlotNames(lock.Names()[0], lock.Slots())
}
