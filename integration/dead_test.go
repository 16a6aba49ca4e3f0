package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// quick bounds a call that does not wait for a lock.
const quick = 200 * time.Millisecond

// took fails the test when fn takes longer than bound, and the machine's stalls do not explain it.
func took(t *testing.T, what string, bound time.Duration, fn func()) {
	t.Helper()
	w := stopwatch(t)
	defer w.Stop()
	fn()
	if d, stalled := w.Read(); d > poll.AtMost(bound, stalled) {
		t.Errorf("%s took %v, more than %v; the machine stood still for %v", what, d, bound, stalled)
	}
}

// A frozen server runs what is in its socket buffers when it thaws, however late, and after the
// attempts have been given up. Not parallel: the workers take all the processor that there is.
func TestThawedServersHoldNothing(t *testing.T) {
	for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 5)
			lockers := []*quorum.Locker{open(t, f, by, brief), open(t, f, by, brief)}
			for round := range 3 {
				ctx, stop := context.WithCancel(t.Context())
				var working sync.WaitGroup
				var mu sync.Mutex
				attempts, failures := 0, 0
				for worker := range 64 {
					working.Go(func() {
						// Each name has two contenders, one from each locker.
						name := fmt.Sprintf("round %d, job %d", round, worker/2)
						for ctx.Err() == nil {
							held, err := lockers[worker%2].TryLock(ctx, name)
							mu.Lock()
							attempts++
							if err != nil {
								failures++
							}
							mu.Unlock()
							if err == nil {
								held.Unlock(ctx) // frozen nodes may make it fail
							}
						}
					})
				}
				count := func() int { mu.Lock(); defer mu.Unlock(); return attempts }
				eventually(t, patience, func() bool { return count() > 200 }, "the workers are at it")
				for _, m := range f.Masters[:3] {
					must(t, m.Freeze())
				}
				frozenAt := count()
				eventually(t, patience, func() bool { return count() > frozenAt+200 },
					"attempts fail while three of five are frozen")
				stop()
				working.Wait()
				for _, m := range f.Masters[:3] {
					must(t, m.Thaw())
				}
				noLocks(t, f.Masters)
				if failures == 0 {
					t.Error("no attempt failed: the test shows nothing")
				}
				// The nodes are to be found alive again before the next round.
				eventually(t, patience, func() bool {
					held, err := lockers[0].TryLock(t.Context(), "again")
					if err != nil {
						return false
					}
					unlock(t, held)
					held, err = lockers[1].TryLock(t.Context(), "again")
					if err == nil {
						unlock(t, held)
					}
					return err == nil
				}, "both lockers work after the thaw")
			}
		})
	}
}
