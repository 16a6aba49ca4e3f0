package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/quorum"
)

// fillers is how many goroutines acquire and release the locks that are held.
const fillers = 256

// crew is many held locks.
type crew struct {
	locker *quorum.Locker
	locks  []*quorum.Lock
	names  []string // made before, if their memory is not to count
}

func (c *crew) name(i int) string {
	if i < len(c.names) {
		return c.names[i]
	}
	return fmt.Sprintf("bench:held:%d", i)
}

// grow acquires more locks, up to n.
func (c *crew) grow(ctx context.Context, n int) error {
	had := len(c.locks)
	c.locks = slices.Grow(c.locks, n-had)[:n]
	return inParallel(n-had, func(i int) (err error) {
		c.locks[had+i], err = c.locker.Lock(ctx, c.name(had+i))
		return err
	})
}

// release releases all locks. Those that were lost, lost counts.
func (c *crew) release(ctx context.Context) error {
	locks := c.locks
	c.locks = nil
	return inParallel(len(locks), func(i int) error {
		if locks[i] == nil {
			return nil
		}
		if err := locks[i].Unlock(ctx); !errors.Is(err, quorum.ErrLost) {
			return err
		}
		return nil
	})
}

// lost counts the locks that were lost.
func (c *crew) lost() int {
	n := 0
	for _, lock := range c.locks {
		if !lock.Valid() {
			n++
		}
	}
	return n
}

func inParallel(n int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, fillers)
	var all sync.WaitGroup
	for f := range fillers {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < n && errs[f] == nil; i = next.Add(1) - 1 {
				errs[f] = do(int(i))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
