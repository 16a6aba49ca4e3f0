package quorumtest_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// A process of Run ends with its function, or with the test, and its locker is closed.
func TestRun(t *testing.T) {
	var locker *quorum.Locker
	ended := false
	t.Run("a test", func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		wait := masters.Run(func(ctx context.Context, l *quorum.Locker) {
			err := l.Do(ctx, func(context.Context, *quorum.Lock) error { return nil }, "a")
			testkit.Check(t, err == nil, "%v", err)
			locker = l
		})
		wait()
		_, err := locker.TryLock(t.Context(), "a")
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "closed"), "the locker of a process that has ended: %v", err)
		masters.Run(func(ctx context.Context, l *quorum.Locker) { <-ctx.Done(); ended = true })
	})
	testkit.Check(t, ended, "a process goes on after its test")
}

// Under Explore processes are killed, and end in good order, and whoever takes their place goes on: each invoice is paid
// once, and no seed waits for a process that is gone.
func TestExploreReplacesProcesses(t *testing.T) {
	var lives, killed, ended atomic.Int64
	quorumtest.Explore(t, 20, func(t *testing.T, masters *quorumtest.Masters) {
		bank := &bank{}
		var waits []func()
		for range 3 {
			waits = append(waits, masters.Run(func(ctx context.Context, locker *quorum.Locker) {
				lives.Add(1)
				one := &till{locker, bank, func() { masters.Work(locker, time.Second) }}
				for one.charge(ctx) != nil && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				time.Sleep(5 * time.Minute)
				if ctx.Err() == nil {
					return
				}
				_, err := locker.TryLock(context.Background(), "whether it is cut off")
				if err == nil {
					ended.Add(1)
				} else {
					killed.Add(1)
				}
			}))
		}
		for _, wait := range waits {
			wait()
		}
		testkit.Check(t, bank.payments == 1, "paid %d times", bank.payments)
	})
	testkit.Check(t, lives.Load() > 3*20 && killed.Load() > 0 && ended.Load() > 0, "%d processes, %d killed, %d ended in good order",
		lives.Load(), killed.Load(), ended.Load())
}
