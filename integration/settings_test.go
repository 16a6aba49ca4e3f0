package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestDo(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	l := open(t, f, redlock.Open, quorum.WithLease(2*time.Second))
	must(t, l.Do(t.Context(), func(ctx context.Context, held *quorum.Lock) error {
		found, ok := quorum.FromContext(ctx, "bridge")
		if !ok || found != held || !held.Valid() || ctx != held.Context() {
			t.Errorf("fn's context: %v, %v", held, ok)
		}
		return nil
	}, "bridge"))
	noKeys(t, f.Masters, "bridge")

	ours := errors.New("ours")
	err := l.Do(t.Context(), func(context.Context, *quorum.Lock) error { return ours }, "bridge")
	wantErr(t, err, ours)
	if errors.Is(err, quorum.ErrLost) {
		t.Errorf("not lost: %v", err)
	}
	noKeys(t, f.Masters, "bridge")

	ctx, cancel := context.WithCancel(t.Context())
	err = l.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error { cancel(); return ctx.Err() }, "bridge")
	wantErr(t, err, context.Canceled)
	noKeys(t, f.Masters, "bridge")

	func() {
		defer func() {
			if recover() != "fn" {
				t.Error("fn's panic was lost")
			}
		}()
		l.Do(t.Context(), func(context.Context, *quorum.Lock) error { panic("fn") }, "bridge")
	}()
	noKeys(t, f.Masters, "bridge")

	err = l.Do(t.Context(), func(ctx context.Context, _ *quorum.Lock) error {
		must(t, l.ForceUnlock(t.Context(), "bridge"))
		<-ctx.Done()
		return ours
	}, "bridge")
	wantErr(t, err, ours, quorum.ErrLost)
	err = l.Do(t.Context(), func(ctx context.Context, _ *quorum.Lock) error {
		must(t, l.ForceUnlock(t.Context(), "bridge"))
		return nil // before the holder can notice
	}, "bridge")
	wantErr(t, err, quorum.ErrLost)

	other := lock(t, open(t, f, redlock.Open), "bridge")
	ctx, cancel = context.WithTimeout(t.Context(), soon)
	defer cancel()
	err = l.Do(ctx, func(context.Context, *quorum.Lock) error { t.Error("fn was called without the lock"); return nil }, "bridge")
	wantErr(t, err, quorum.ErrNotAcquired, quorum.ErrHeld, context.DeadlineExceeded)
	unlock(t, other)
}

func TestWith(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	told := make(chan string, 4)
	l := open(t, f, redlock.Open)
	fixed := l.With(quorum.WithFixedLease(4*time.Second),
		quorum.WithHooks(quorum.Hooks{Acquired: func(l *quorum.Lock) { told <- fmt.Sprint(l.Names()) }}))
	long := lock(t, l, "long")
	held := lock(t, fixed, "brief")
	if got := <-told; got != "[brief]" || len(told) > 0 {
		t.Errorf("the hook of With got %s", got)
	}
	for name, bounds := range map[string][2]int64{"long": {20_000, 30_000}, "brief": {1, 4000}} {
		for i, m := range f.Masters {
			// A minority may be later.
			eventually(t, patience, func() bool { return do(t, m, "EXISTS", name).(int64) == 1 }, name+" stands")
			if left := do(t, m, "PTTL", name).(int64); left < bounds[0] || left > bounds[1] {
				t.Errorf("%s on master %d: %d ms left, want %v", name, i+1, left, bounds)
			}
		}
	}
	if _, err := fixed.TryLock(t.Context(), "long"); !errors.Is(err, quorum.ErrHeld) {
		t.Errorf("With is another holder's namespace: %v", err)
	}
	unlock(t, lockWithin(t, long.Context(), l.With(), "long")) // one flow: this enters again
	want(t, ended(t, held, patience), quorum.ErrLost, "lease is over")
	noKeys(t, f.Masters, "brief")
	again := lock(t, fixed.With(quorum.WithLease(5*time.Second)), "brief")
	if left := time.Until(again.Deadline()); left < 3*time.Second || left > 5*time.Second {
		t.Errorf("With of With: %v left", left)
	}
	unlock(t, again)
	unlock(t, long)
	must(t, fixed.Close())
	_, err := l.TryLock(t.Context(), "long")
	wantErr(t, err, quorum.ErrClosed)
}

// ended waits until a lock's context ends, and returns its cause.
func ended(t *testing.T, held *quorum.Lock, bound time.Duration) error {
	t.Helper()
	select {
	case <-held.Context().Done():
		return context.Cause(held.Context())
	case <-time.After(bound):
		t.Fatalf("%q: the context has not ended within %v", held.Names(), bound)
		return nil
	}
}

// An attempt that finds the lock held fails with ErrHeld. A dead master that the quorum does not
// need changes nothing, nor does an attempt that ends with the first refusal.
func TestHeldIsTheReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		by   opener
		n    int
		dead int
	}{
		{"redlock of 3", redlock.Open, 3, 0},
		{"redlock of 3, one dead", redlock.Open, 3, 1},
		{"redlock of 5, two dead", redlock.Open, 5, 2},
		{"multilock of 3", multilock.Open, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fleet(t, c.n)
			a, b := open(t, f, c.by), open(t, f, c.by)
			held := lock(t, a, "bridge")
			for _, m := range f.Masters[:c.dead] {
				must(t, m.Kill())
			}
			wrong, first := 0, error(nil)
			for range 100 {
				_, err := b.TryLock(t.Context(), "bridge")
				if !errors.Is(err, quorum.ErrHeld) || errors.Is(err, quorum.ErrUnavailable) {
					if wrong++; first == nil {
						first = err
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d of 100 name another reason, first: %v", wrong, first)
			}
			unlock(t, held)
		})
	}
}

// panicsOnce is a source of randomness that panics at its first use.
type panicsOnce struct{ used bool }

func (s *panicsOnce) Uint64() uint64 {
	if !s.used {
		s.used = true
		panic("source")
	}
	return rand.Uint64()
}

// A source of randomness that panics ends the call that used it, and holds up no other, whatever its names.
func TestSourceThatPanicsHoldsUpNobody(t *testing.T) {
	f := fleet(t, 3)
	held := lock(t, open(t, f, redlock.Open), "a")
	defer unlock(t, held)
	l := open(t, f, redlock.Open, quorumtest.WithRand(&panicsOnce{}))
	// call runs one Lock in a goroutine of its own, which a mutex could hold for ever, and tells whether it ended.
	call := func(name string) (ended bool, panicked any) {
		over := make(chan any, 1)
		go func() {
			defer func() { over <- recover() }()
			ctx, cancel := context.WithTimeout(context.Background(), soon/4)
			defer cancel()
			if lock, err := l.Lock(ctx, name); err == nil {
				lock.Unlock(ctx)
			}
		}()
		select {
		case panicked = <-over:
			return true, panicked
		case <-time.After(patience):
			return false, nil
		}
	}
	if ended, panicked := call("a"); !ended || panicked == nil {
		t.Errorf("the call that waits has ended: %v, with the panic %v: want it to panic", ended, panicked)
	}
	if ended, _ := call("b"); !ended {
		t.Error("Lock of another name does not return, not even when its context ends")
	}
}
