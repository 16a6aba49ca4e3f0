package quorum

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A process waits for hundreds of names that another one holds. It polls no more often than docs/scale.md says, and its
// other locks, and a name that becomes free, come at once.
func TestManyNamesWait(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const names, most, watched = 300, 3000, 150 * time.Millisecond
		var polls atomic.Int64
		holder := c.process()
		waiter := c.process(WithRetry(3*time.Millisecond, 15*time.Millisecond), // without a bound: 5,000 polls per second
			WithHooks(Hooks{Attempt: func(context.Context, AttemptEvent) { polls.Add(1) }}))
		held := make([]*Lock, names)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range held {
			held[i] = c.lock(holder, fmt.Sprint("held ", i))
			waiting.Go(func() {
				_, err := waiter.Lock(ctx, held[i].Names()...)
				testkit.Check(t, err != nil, "%v is held twice", held[i].Names())
			})
		}
		time.Sleep(watched) // by then, each has polled
		polls.Store(0)
		const counted = 4 * watched // several polls of each: those of one round come close together
		time.Sleep(counted)
		perSecond := float64(polls.Load()) / counted.Seconds()
		testkit.Check(t, perSecond > 100 && perSecond <= most, "%.0f polls per second, want at most %d", perSecond, most)

		for i := range 2 {
			time.Sleep(7 * time.Millisecond) // not always at the same time as renewals
			began := time.Now()
			c.unlock(c.lock(waiter, "free"))
			wantTook(t, began, 0, time.Millisecond)

			name := fmt.Sprint("handed off ", i)
			next := c.lock(holder, name)
			got := c.waits(waiter, name)
			time.Sleep(watched) // refused, subscribed, and refused again
			began = time.Now()
			c.unlock(next)
			c.unlock(c.nextLock(got, time.Minute))
			wantTook(t, began, 0, 5*time.Millisecond)
		}
		cancel()
		waiting.Wait()
		synctest.Wait()
		for _, lock := range held {
			testkit.Is(t, lock.Err(), nil, "a held lock")
			c.unlock(lock)
		}
	})
}
