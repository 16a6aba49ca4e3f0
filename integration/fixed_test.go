package integration_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// A lock of a fixed lease ends when it would have ended, however often its flow enters it again: on
// the masters, by the deadline, and by the context. Not parallel: the bounds are milliseconds.
func TestReentryDoesNotProlongAFixedLease(t *testing.T) {
	const lease = 4 * time.Second // half of it outlasts a stall
	for name, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			l := open(t, f, by, quorum.WithFixedLease(lease))
			outer := lock(t, l, "bridge")
			grantedByAll(t, f.Masters, "bridge")
			since := stopwatch(t) // the last master granted it before
			begun := since.Began()
			deadline := outer.Deadline()
			if name == "redlock" { // a master that forgot grants again for the rest of the lease only
				do(t, f.Masters[1], "DEL", "bridge")
			}
			// ttlsEnd fails the test when a master keeps the lock beyond the lease, but for what a request took on its way to it.
			asked, longest := begun, time.Duration(0)
			ttlsEnd := func() {
				t.Helper()
				for i, m := range f.Masters {
					most := time.Until(begun.Add(lease))
					left := do(t, m, "PTTL", "bridge").(int64)
					longest = max(longest, time.Since(asked))
					if time.Duration(left)*time.Millisecond > most+longest+time.Millisecond {
						t.Errorf("master %d keeps it for %d ms, %v are left of the lease", i+1, left, most)
					}
				}
			}
			for time.Since(begun) < lease/2 {
				pass(t, 50*time.Millisecond)
				asked = time.Now()
				inner := lockWithin(t, outer.Context(), l, "bridge")
				eventually(t, patience, func() bool {
					return !slices.ContainsFunc(keys(t, f.Masters, "bridge"), func(hash map[string]string) bool { return hash[outer.Owner()] != "2" })
				}, "bridge entered again on all masters")
				if inner.Token() != outer.Token() {
					t.Errorf("token %d within %d", inner.Token(), outer.Token())
				}
				for _, held := range []*quorum.Lock{outer, inner} {
					if moved := held.Deadline().Sub(deadline); moved > 2*time.Millisecond {
						t.Errorf("the deadline moved by %v", moved)
					}
				}
				ttlsEnd()
				unlock(t, inner)
				ttlsEnd()
			}
			if name == "redlock" {
				if left := do(t, f.Masters[1], "PTTL", "bridge").(int64); left <= 0 {
					t.Errorf("the master that forgot was not asked again: PTTL %d", left)
				}
			}
			want(t, ended(t, outer, patience), quorum.ErrLost, "lease is over")
			if at, stalled := since.Read(); at > poll.AtMost(lease+lease/4, stalled) {
				t.Errorf("it ended after %v, its lease is %v; the machine stood still for %v", at, lease, stalled)
			}
			noLocks(t, f.Masters)
		})
	}
}

// Entering again gives the lock that is held. A Locker whose settings would change that lock is
// refused, with the reason.
func TestReentryByOtherSettings(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	l := open(t, f, redlock.Open, quorum.WithLease(10*time.Second))
	outer := lock(t, l, "bridge")
	for what, c := range map[string]struct {
		opts  []quorum.Option
		words []string
	}{
		"lease":    {[]quorum.Option{quorum.WithLease(5 * time.Second)}, []string{"lease", "10s", "5s"}},
		"fixed":    {[]quorum.Option{quorum.WithFixedLease(10 * time.Second)}, []string{"renewed", "fixed"}},
		"max hold": {[]quorum.Option{quorum.WithMaxHold(time.Minute)}, []string{"max hold", "1m0s"}},
		"drift":    {[]quorum.Option{quorum.WithDrift(0.02)}, []string{"drift", "0.01", "0.02"}},
		"two of them": {
			[]quorum.Option{quorum.WithDrift(0.02), quorum.WithMaxHold(time.Minute)}, []string{"drift", "max hold"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			other := l.With(c.opts...)
			_, err := other.Lock(outer.Context(), "bridge")
			want(t, err, quorum.ErrInvalid, append(c.words, `"bridge"`)...)
			_, err = other.TryLock(outer.Context(), "bridge")
			want(t, err, quorum.ErrInvalid, c.words...)
			err = other.Do(outer.Context(), func(context.Context, *quorum.Lock) error {
				t.Error("fn was called")
				return nil
			}, "bridge")
			want(t, err, quorum.ErrInvalid, c.words...)
			if outer.Level() != 1 || !outer.Valid() {
				t.Errorf("level %d, %v", outer.Level(), outer.Err())
			}
		})
	}
	// Retry times and hooks may differ, and equal settings are allowed.
	same := l.With(quorum.WithRetry(time.Millisecond, time.Second), quorum.WithHooks(quorum.Hooks{}),
		quorum.WithLease(10*time.Second))
	inner := lockWithin(t, outer.Context(), same, "bridge")
	levelIs(t, f.Masters, outer, 2)
	unlock(t, inner)
	unlock(t, outer)
}
