package quorum

import (
	"context"
	"testing"
)

// A commit runs code of the caller's, its context's. That may block, so the schedule of all locks must not wait for it.
func TestCommitRunsNoCodeOfTheCallersUnderTheSchedulesMutex(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		a := c.won(l)
		asked := 0
		ctx := hookedContext{t.Context(), func() {
			asked++
			if !l.core.schedule.mu.TryLock() {
				t.Error("the schedule of all locks is locked while the caller's context is asked")
				return
			}
			l.core.schedule.mu.Unlock()
		}}
		if !a.commit(ctx) || asked == 0 {
			t.Fatalf("no lock, or the context was not asked: the test shows nothing (%d)", asked)
		}
		c.unlock(&a.hold.first)
	})
}

// endedContext says that it has ended, and ends nothing.
type endedContext struct{ context.Context }

func (endedContext) Err() error { return context.Canceled }

// The names of an error are the library's own copy, as those of a lock are.
func TestErrorOfReentryKeepsItsNames(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		defer c.unlock(held)
		names := []string{"a"}
		_, err := held.enter(endedContext{held.Context()}, l.set, names)
		failed, ok := err.(*Error)
		if !ok {
			t.Fatalf("it entered: %v", err)
		}
		names[0] = "b"
		if failed.Names[0] != "a" {
			t.Errorf("the error is of %q by now", failed.Names)
		}
	})
}
