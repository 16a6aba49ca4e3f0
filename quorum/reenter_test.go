package quorum

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
)

// endedContext says that it has ended, and ends nothing.
type endedContext struct{ context.Context }

func (endedContext) Err() error { return context.Canceled }

// The names of an error are the library's own copy, as a lock's are.
func TestErrorOfReentryKeepsItsNames(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		defer c.unlock(held)
		names := []string{"a"}
		_, err := held.enter(held.Context(), endedContext{held.Context()}, l.set, names)
		failed, ok := err.(*Error)
		testkit.Require(t, ok, "it entered: %v", err)
		names[0] = "b"
		testkit.Check(t, failed.Names[0] == "a", "the error is of %q by now", failed.Names)
	})
}

// So it can while a host is down: a re-entry, too, hears the masters that are left before it is
// judged. It waits for a dead one for engine.Grace at most.
func TestAPermanentErrorOfReentryIsFoundWhileAHostIsDown(t *testing.T) {
	for what, delay := range map[string]time.Duration{"slow": engine.Grace / 4, "dead": time.Second} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			c.process() // gives the masters their list
			var slow atomic.Bool
			l := c.over(func(master int) {
				if master == 1 && slow.Load() {
					time.Sleep(delay)
				}
			}, 0, 1, 2)
			held := c.got(l.Lock(t.Context(), "a"))
			c.unlock(c.got(l.Lock(held.Context(), "a"))) // the masters have the scripts: a script's text is several writes
			synctest.Wait()
			slow.Store(true)
			c.Masters[0].Set("a", "of an application")
			c.Masters[1].Set("a", "of an application")
			c.Masters[2].Crash(fakeredis.Nothing)
			began := time.Now()
			_, err := l.Lock(held.Context(), "a")
			wantTook(t, began, 0, engine.Grace)
			isFound := errors.Is(err, ErrPermanent)
			testkit.Check(t, err != nil && isFound == (delay < engine.Grace), "after %v: %v", time.Since(began), err)
		})
	}
}

// A flow finds its locks by their names. A slot is no lock of the semaphore's name.
func TestFromContext(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		a := c.lock(l, "a")
		b := c.got(l.Lock(a.Context(), "b"))
		again := c.got(l.Lock(b.Context(), "a"))
		derived := context.WithValue(again.Context(), valueKey{}, 1)
		finds := func(in context.Context, name string, want *Lock) {
			t.Helper()
			got, ok := FromContext(in, name)
			testkit.Check(t, got == want && ok == (want != nil), "%s: found %p, %v, want %p", name, got, ok, want)
		}
		finds(t.Context(), "a", nil)
		finds(a.Context(), "a", a)
		finds(a.Context(), "b", nil)
		finds(b.Context(), "a", a)
		finds(derived, "a", again)
		finds(derived, "b", b)
		c.unlock(again)
		finds(derived, "a", a)
		c.unlock(a)
		finds(derived, "a", nil)
		c.handOver(b)
		finds(derived, "b", nil)
		slot := c.takes(NewSemaphore(l, "s", 2))
		finds(slot.Context(), "s", nil)
		lingers := c.lock(c.process(WithMinHold(time.Second)), "d")
		finds(lingers.Context(), "d", lingers)
		c.unlock(lingers)
		finds(lingers.Context(), "d", nil)
		for name, end := range map[string]func(*Lock){"e": c.unlock, "f": func(lock *Lock) { c.handOver(lock) }} {
			outer := c.lock(l, name)
			inner := c.got(l.Lock(outer.Context(), name))
			finds(inner.Context(), name, inner)
			end(outer) // which ends it at any depth
			finds(inner.Context(), name, nil)
		}
		testkit.Check(t, slices.Equal(slot.Names(), []string{"s"}), "names %q", slot.Names())
	})
}

// A re-entry that enough nodes confirm just as its context, or the lock, has ended says that this is why it failed.
func TestReentryThatEndsAtTheLastInstant(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner := c.got(l.Lock(held.Context(), "a"))
		confirmed, _ := held.handle.Extend(time.Second)
		<-confirmed.Decided
		over, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		wantError(t, inner.notEntered(over, nil, confirmed),
			ErrNotAcquired, context.DeadlineExceeded, not{ErrUnavailable}, not{ErrLost})
		c.unlock(held)
		wantError(t, inner.notEntered(t.Context(), nil, confirmed), ErrNotAcquired, ErrNotHeld, not{"granted"})
	})
}

// A re-entry is told whether the lock was lost meanwhile, or has ended in good order.
func TestAReentryWhoseLockEndsMeanwhile(t *testing.T) {
	lose := func(c *cluster, l *Locker, held *Lock) {
		c.must(force(context.Background(), l, "a"))
		held.Extend(context.Background(), time.Second)
	}
	for what, test := range map[string]struct {
		want error
		end  func(c *cluster, l *Locker, held *Lock)
	}{
		"lost":        {ErrLost, lose},
		"lost before": {ErrLost, func(c *cluster, l *Locker, held *Lock) { lose(c, l, held); held.Unlock(context.Background()) }},
		"unlocked":    {ErrNotHeld, func(c *cluster, _ *Locker, held *Lock) { c.unlock(held) }},
		"handed over": {ErrNotHeld, func(c *cluster, _ *Locker, held *Lock) { c.handOver(held) }},
		"closed":      {ErrClosed, func(_ *cluster, l *Locker, _ *Lock) { l.Close() }},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process()
			held := c.lock(l, "a")
			inner, left := c.got(l.Lock(held.Context(), "a")), c.got(l.Lock(held.Context(), "a"))
			enter := func(within *Lock) error { return errorOf(within.enter(t.Context(), t.Context(), l.set, []string{"a"})) }
			c.unlock(left)
			wantError(t, enter(left), ErrNotAcquired, ErrNotHeld, not{ErrLost})
			test.end(c, l, held)
			for _, within := range []*Lock{held, inner, left} {
				err := enter(within)
				wantError(t, err, ErrNotAcquired, test.want)
				for _, other := range []error{ErrLost, ErrNotHeld, ErrClosed} {
					testkit.Check(t, other == test.want || !errors.Is(err, other), "%v", err)
				}
			}
		})
	}
}

// Do reports what ended it: its own context, or a loss that nobody could notice in time.
func TestDo(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, func(ctx context.Context, held *Lock) error {
			found, ok := FromContext(ctx, "a")
			testkit.Check(t, ok && found == held && held.Valid() && ctx == held.Context(), "the work has %v, %v", held, ok)
			cancel()
			return ctx.Err()
		}, "a")
		wantError(t, err, context.Canceled)
		c.wantNothingLeft(l)
		err = l.Do(t.Context(), func(context.Context, *Lock) error { return force(t.Context(), l, "a") }, "a")
		wantError(t, err, ErrLost)
		c.wantNothingLeft(l)
	})
}

// With of With changes what it names, and keeps the rest.
func TestWithOfWith(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		held := c.lock(c.process().With(WithFixedLease(4*time.Second)).With(WithLease(8*time.Second)), "a")
		left := time.Until(held.Deadline())
		testkit.Check(t, left >= 4*time.Second && left <= 8*time.Second, "%v left", left)
		c.unlock(held)
	})
}
