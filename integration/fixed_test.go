package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

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
