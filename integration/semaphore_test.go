package integration_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// Eight lockers contend for four slots on real servers: a slot has one holder, its tokens rise, and each locker gets its turns.
func TestProcessesShareSlots(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	const lockers, slots, turns = 8, 4, 10
	var holders [slots]atomic.Int32
	var tokens [slots]atomic.Uint64
	var working sync.WaitGroup
	for range lockers {
		semaphore := open(t, f, redlock.Open).Semaphore("s", slots)
		working.Go(func() {
			for range turns {
				held, err := semaphore.Acquire(short(t))
				if err != nil {
					t.Error(err)
					return
				}
				slot := held.Slot()
				if n := holders[slot].Add(1); n > 1 {
					t.Errorf("%d hold slot %d", n, slot)
				}
				if last := tokens[slot].Swap(held.Token()); held.Token() <= last {
					t.Errorf("slot %d: token %d after %d", slot, held.Token(), last)
				}
				pass(t, 5*time.Millisecond)
				holders[slot].Add(-1)
				if err := held.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
}

// A minority of the masters that says that all slots are taken hides from no waiter that the others are dead.
func TestASemaphoreOnTooFewMasters(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	locker := open(t, f, redlock.Open)
	held, err := locker.Semaphore("s", 1).Acquire(t.Context())
	must(t, err)
	grantedByAll(t, f.Masters, scripts.SlotName("s", held.Slot()))
	must(t, f.Masters[0].Kill())
	must(t, f.Masters[1].Kill())
	waiter := locker.With(quorum.WithWait(time.Second)).Semaphore("s", 1)
	eventually(t, patience, func() bool {
		_, err = waiter.Acquire(t.Context())
		return errors.Is(err, quorum.ErrUnavailable)
	}, "the waiter is told that masters are unavailable")
	var failed *node.Error
	if !errors.As(err, &failed) || errors.Is(err, quorum.ErrHeld) {
		t.Errorf("the waiter is told %v", err)
	}
	held.Unlock(t.Context()) // which fails, too
}
