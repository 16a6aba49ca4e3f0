package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/examples"
	"github.com/quorumlock/quorumlock/quorum"
)

// docs/usage.md and docs/recipes.md quote the functions of this file that are no examples.

// At most four imports run at a time, on all instances together.
func importOne(ctx context.Context, locker *quorum.Locker, load func(context.Context) error) error {
	slot, err := locker.Semaphore("imports", 4).Acquire(ctx)
	if err != nil {
		return err
	}
	defer slot.Unlock(ctx)
	return load(slot.Context())
}

func Example_imports() {
	masters, locker := examples.Start()
	defer masters.Stop()
	defer locker.Close()
	var running, most atomic.Int64
	done := make(chan error)
	const imports = 12
	for range imports {
		go func() {
			done <- importOne(context.Background(), locker, func(context.Context) error {
				now := running.Add(1)
				defer running.Add(-1)
				for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
				}
				time.Sleep(20 * time.Millisecond)
				return nil
			})
		}()
	}
	for range imports {
		if err := <-done; err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(most.Load() <= 4)
	// Output: true
}

// ids makes numbers that no other instance makes: the time in ms, a worker's number of 10 bits, and a
// count of 12 bits.
type ids struct {
	slot  *quorum.Lock
	last  uint64
	count uint64
}

var errWorkerNumber = errors.New("the worker's number may be another's by now")

func (w *ids) next(now time.Time) (uint64, error) {
	at := uint64(now.UnixMilli())
	if w.count++; at > w.last {
		w.last, w.count = at, 0
	}
	if w.count == 1<<12 { // this millisecond is used up
		w.last, w.count = w.last+1, 0
	}
	id := w.last<<22 | uint64(w.slot.Slot())<<12 | w.count
	if !w.slot.Valid() {
		return 0, errWorkerNumber
	}
	return id, nil
}

func startWorker(ctx context.Context, locker *quorum.Locker) (*ids, error) {
	slot, err := locker.Semaphore("workers", 1024).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &ids{slot: slot}, nil
}

// Each worker has a number that nobody else has, for as long as it holds the slot.
func Example_workerNumbers() {
	masters, locker := examples.Start()
	defer masters.Stop()
	defer locker.Close()
	seen := map[uint64]bool{}
	now := time.UnixMilli(1_800_000_000_000)
	for range 3 {
		worker, err := startWorker(context.Background(), locker)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer worker.slot.Unlock(context.Background())
		for range 1000 {
			id, err := worker.next(now)
			if err != nil || seen[id] {
				fmt.Println(id, err)
			}
			seen[id] = true
		}
	}
	fmt.Println(len(seen), "ids")
	// Output: 3000 ids
}
