package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/recipes.md quotes next.

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
	id := w.last<<22 | uint64(w.slot.Slots()[0])<<12 | w.count
	if !w.slot.Valid() {
		return 0, errWorkerNumber
	}
	return id, nil
}

func startWorker(ctx context.Context, locker *quorum.Locker) (*ids, error) {
	slot, err := semaphore.New(locker, "workers", 1024).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &ids{slot: slot}, nil
}

// Each worker has a number that nobody else has, for as long as it holds the slot.
func ExampleSemaphore_Acquire_workerNumbers() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
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
