package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// rushes is how many attempts a rush begins: four that are open make a locker busy, and one of them
// may be to ask all masters, so that it compares them.
const rushes = 5

// rush makes a locker busy, so that the next attempt asks a quorum first.
type rush struct {
	locker *quorum.Locker
	client int
	locks  sync.WaitGroup
}

// begin begins attempts at names that no other process locks.
func (r *rush) begin() {
	var begun sync.WaitGroup
	begun.Add(rushes)
	for i := range rushes {
		r.locks.Go(func() {
			begun.Done()
			ctx := context.Background()
			lock, err := r.locker.TryLock(ctx, fmt.Sprintf("rush-%d-%d", r.client, i))
			if err != nil {
				return // masters die all the time
			}
			time.Sleep(50 * time.Millisecond) // the second wave comes within 40
			_ = lock.Unlock(ctx)
		})
	}
	begun.Wait()
}
