package semaphore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/usage.md quotes importOne.

// At most four imports run at a time, on all instances together.
func importOne(ctx context.Context, locker *quorum.Locker, load func(context.Context) error) error {
	slot, err := semaphore.New(locker, "imports", 4).Acquire(ctx)
	if err != nil {
		return err
	}
	defer slot.Unlock(ctx)
	return load(slot.Context())
}

// Twelve imports start at once.
func ExampleNew() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
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
