package quorum

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// ForceUnlock removes each lock, whatever is at the other names. No waiting helps where an application has the name.
func TestForceUnlockPassesWhatIsNoLock(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, operator := c.process(), c.process()
		c.lock(l, "a")
		synctest.Wait()
		for i := range c.masters {
			c.command(i, "HSET", "profile", "name", "bob")
		}
		const noLock = `the key "profile" holds a hash that is no lock`
		if err := operator.ForceUnlock(t.Context(), "profile", "a"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), noLock) {
			t.Error(err)
		}
		c.wantNoOwners(operator)
		if _, err := operator.Lock(t.Context(), "profile"); !errors.Is(err, ErrPermanent) || !strings.Contains(err.Error(), noLock) {
			t.Error(err)
		}
	})
}

// What an application has at a name stays, also where a field looks like an owner, or is too long for one.
func TestForceUnlockLeavesWhatIsNoLock(t *testing.T) {
	for what, c := range map[string]struct {
		hash  []any
		force func(l *Locker) error
	}{
		"fields like owners": {[]any{"user:17", "visits", "user:18", "2"},
			func(l *Locker) error { return l.ForceUnlockOwner(context.Background(), "user:17", "a") }},
		"a field like an owner": {[]any{"user:17", "visits"},
			func(l *Locker) error { return l.ForceUnlockOwner(context.Background(), "user:17", "a") }},
		"a long field": {[]any{strings.Repeat("u", 5000), "1"},
			func(l *Locker) error { return l.ForceUnlock(context.Background(), "a") }},
	} {
		inCluster(t, func(t *testing.T, cl *cluster) {
			l := cl.process()
			for i := range cl.masters {
				cl.command(i, "HSET", append([]any{"a"}, c.hash...)...)
				cl.command(i, "PEXPIRE", "a", "1000000")
			}
			if err := c.force(l); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no lock") {
				t.Errorf("%s: %v", what, err)
			}
			for i, m := range cl.masters {
				if !slices.Contains(m.Keys(), "a") {
					t.Errorf("%s: master %d has lost it", what, i)
				}
			}
		})
	}
}

// A minority makes no owner, and is told of its node alone.
func TestInspectOfAMinority(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.unlock(c.lock(l, "b"))
		c.command(0, "HSET", "a", "other:1", "3")
		state, err := l.Inspect(t.Context(), "a")
		if first := state.Nodes[0]; err != nil || state.Owner != "" || first.Owner != "other:1" || first.Level != 3 || first.TTL != -1 {
			t.Errorf("%+v, %v", state, err)
		}
		l.Close()
		if _, err := l.Inspect(t.Context(), "a"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
