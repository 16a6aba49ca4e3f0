package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

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

// The context of a re-entry ends with the lock, even if the caller's does not.
func TestAReentryEndsWithTheLock(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner, err := l.Lock(context.WithoutCancel(held.Context()), "a")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if cause := context.Cause(inner.Context()); !errors.Is(cause, ErrClosed) {
			t.Errorf("the context of the re-entry: %v", cause)
		}
	})
}

// A loop that enters a lock again can also see when that cannot succeed.
func TestPermanentErrorsOfReentry(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		c.masters[0].Set("a", "of an application")
		inner, err := l.Lock(held.Context(), "a")
		if err != nil {
			t.Fatalf("one of three masters refuses: %v", err)
		}
		c.unlock(inner)
		c.masters[1].Set("a", "of an application")
		for what, lock := range map[string]func(context.Context, ...string) (*Lock, error){
			"Lock": l.Lock, "TryLock": l.TryLock,
		} {
			_, err := lock(held.Context(), "a")
			if !errors.Is(err, ErrPermanent) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// So it can while a host is down: a re-entry, too, hears the masters that are left before it is
// judged. It waits for a dead one for grace at most.
func TestAPermanentErrorOfReentryIsFoundWhileAHostIsDown(t *testing.T) {
	for what, delay := range map[string]time.Duration{"slow": grace / 4, "dead": time.Second} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				c.process() // gives the masters their list
				var slow atomic.Bool
				l := c.over(func(master int) {
					if master == 1 && slow.Load() {
						time.Sleep(delay)
					}
				}, 0, 1, 2)
				held, err := l.Lock(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				slow.Store(true)
				c.masters[0].Set("a", "of an application")
				c.masters[1].Set("a", "of an application")
				c.masters[2].Crash(fakeredis.Nothing)
				began := time.Now()
				_, err = l.Lock(held.Context(), "a")
				if took := time.Since(began); took > grace {
					t.Errorf("it took %v", took)
				}
				if isFound := errors.Is(err, ErrPermanent); err == nil || isFound != (delay < grace) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}
