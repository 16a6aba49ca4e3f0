package quorum

import (
	"context"
	"errors"
	"strings"
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
		_, err := held.enter(endedContext{held.Context()}, l.set, names)
		failed, ok := err.(*Error)
		require(t, ok, "it entered: %v", err)
		names[0] = "b"
		testkit.Check(t, failed.Names[0] == "a", "the error is of %q by now", failed.Names)
	})
}

// The context of a re-entry ends with the lock, even if the caller's does not.
func TestAReentryEndsWithTheLock(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner := c.got(l.Lock(context.WithoutCancel(held.Context()), "a"))
		l.Close()
		wantError(t, context.Cause(inner.Context()), ErrClosed) // the context of the re-entry
	})
}

// A loop that enters a lock again can also see when that cannot succeed.
func TestPermanentErrorsOfReentry(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		c.masters[0].Set("a", "of an application")
		c.unlock(c.got(l.Lock(held.Context(), "a"))) // one of three masters refuses
		c.masters[1].Set("a", "of an application")
		wantError(t, errorOf(l.Lock(held.Context(), "a")), ErrPermanent)
		wantError(t, errorOf(l.TryLock(held.Context(), "a")), ErrPermanent)
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
			c.masters[0].Set("a", "of an application")
			c.masters[1].Set("a", "of an application")
			c.masters[2].Crash(fakeredis.Nothing)
			began := time.Now()
			_, err := l.Lock(held.Context(), "a")
			wantTook(t, began, 0, engine.Grace)
			isFound := errors.Is(err, ErrPermanent)
			testkit.Check(t, err != nil && isFound == (delay < engine.Grace), "after %v: %v", time.Since(began), err)
		})
	}
}

// A flow that holds some of the names, and not all, is refused. Names that it does not hold make another lock alongside the first.
func TestAFlowThatHoldsSomeOfTheNames(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		outer := c.lockKnown(l, "held")
		calls := c.calls.Load()
		for _, names := range [][]string{{"held", "free"}, {"free", "held"}, {"free", "held", "free too"}} {
			wantError(t, errorOf(l.Lock(outer.Context(), names...)), ErrInvalid, of{names})
			wantError(t, errorOf(l.TryLock(outer.Context(), names...)), ErrInvalid, of{names})
		}
		testkit.Equal(t, c.calls.Load()-calls, 0, "calls")
		inner := c.got(l.Lock(outer.Context(), "free", "free too"))
		if c.got(l.Lock(inner.Context(), "held")); outer.Depth() != 2 || inner.Depth() != 1 {
			t.Errorf("depths %d and %d", outer.Depth(), inner.Depth())
		}
	})
}

// A Locker whose settings would change the lock that is held does not enter it, and says why.
func TestReentryByOtherSettings(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithLease(10 * time.Second))
		outer := c.lock(l, "a")
		maxHold, drift := WithMaxHold(time.Minute), WithDrift(0.02)
		for words, opts := range map[string][]Option{
			"its lease is 10s, not 5s":                                                {WithLease(5 * time.Second)},
			"its lease is renewed, not fixed":                                         {WithFixedLease(10 * time.Second)},
			"its max hold is unbounded, not 1m0s":                                     {maxHold},
			"its max hold is unbounded, not 1m0s; its drift factor is 0.01, not 0.02": {maxHold, drift},
		} {
			other := l.With(opts...)
			wantError(t, errorOf(other.Lock(outer.Context(), "a")), ErrInvalid, words, `"a"`)
			wantError(t, errorOf(other.TryLock(outer.Context(), "a")), ErrInvalid, words, `"a"`)
			wantError(t, other.Do(outer.Context(), nil, "a"), ErrInvalid, words, `"a"`)
		}
		same := l.With(WithRetry(time.Millisecond, time.Second), WithHooks(Hooks{}), WithLease(10*time.Second))
		if c.got(same.Lock(outer.Context(), "a")); outer.Depth() != 2 {
			t.Errorf("depth %d", outer.Depth())
		}
	})
}

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
	})
}

// With makes a Locker for other locks of the same process: its own options, the names and the end in common.
func TestWith(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const short = 4 * time.Second
		l := c.process()
		fixed := l.With(WithFixedLease(short))
		held, long := c.lock(fixed, "a"), c.lock(l, "b")
		wantError(t, errorOf(fixed.TryLock(t.Context(), "b")), ErrHeld) // another holder's name
		c.unlock(c.got(l.With().Lock(long.Context(), "b")))
		time.Sleep(short)
		if err := held.Err(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "lease is over") || !long.Valid() {
			t.Errorf("%v; %v", err, long.Err())
		}
		again := c.lock(fixed.With(WithLease(2*short)), "a")
		left := time.Until(again.Deadline())
		testkit.Check(t, left >= short && left <= 2*short, "With of With: %v left", left)
		fixed.Close()
		wantError(t, errorOf(l.TryLock(t.Context(), "c")), ErrClosed)
	})
}

// Do reports what ended it: its own context, or a loss that nobody could notice in time.
func TestDo(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, func(ctx context.Context, held *Lock) error {
			if found, ok := FromContext(ctx, "a"); !ok || found != held || !held.Valid() || ctx != held.Context() {
				t.Errorf("the work has %v, %v", held, ok)
			}
			cancel()
			return ctx.Err()
		}, "a")
		wantError(t, err, context.Canceled)
		c.wantNothingLeft(l)
		err = l.Do(t.Context(), func(context.Context, *Lock) error { return l.ForceUnlock(t.Context(), "a") }, "a")
		wantError(t, err, ErrLost)
		c.wantNothingLeft(l)
	})
}

// A re-entry that gives up says why, and what the masters have replied, as a call that waits does.
func TestAReentryThatGivesUpSaysWhy(t *testing.T) {
	const patience = 200 * time.Millisecond
	deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, patience)
	}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(patience, cancel)
		return ctx, cancel
	}
	patient := func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }
	for what, s := range map[string]struct {
		opts  []Option
		ctx   func(ctx context.Context) (context.Context, context.CancelFunc)
		wants []any
	}{
		"WithWait": {[]Option{WithWait(patience)}, patient, []any{ErrUnavailable, "gave up after 200ms",
			not{context.Canceled}, not{context.DeadlineExceeded}}},
		"a deadline":     {nil, deadline, []any{ErrUnavailable, context.DeadlineExceeded}},
		"a cancellation": {nil, canceled, []any{not{ErrUnavailable}, context.Canceled}},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process(s.opts...)
			held := c.lock(l, "a")
			synctest.Wait()
			for _, master := range []int{1, 2} {
				c.before(master, func() { time.Sleep(2 * patience) })
			}
			ctx, cancel := s.ctx(held.Context())
			defer cancel()
			_, err := l.Lock(ctx, "a")
			wantError(t, err, append(s.wants, ErrNotAcquired, "(1 granted of 2 needed, 2 unknown)")...)
			var failed *Error
			testkit.Check(t, errors.As(err, &failed) && failed.Quorum == 2 && failed.Granted == 1 && failed.Unknown == 2, "%+v", failed)
			time.Sleep(2 * patience)
			c.unlock(held)
		})
	}
}
