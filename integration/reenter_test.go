package integration_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// levelIs fails the test unless the owner soon has that level on every master, and keeps it.
func levelIs(t *testing.T, ms []*redistest.Master, held *quorum.Lock, level int) {
	t.Helper()
	var seen []map[string]string
	everywhere := func() bool {
		seen = keys(t, ms, held.Names()[0])
		for _, hash := range seen {
			if len(hash) != 1 || hash[held.Owner()] != strconv.Itoa(level) {
				return false
			}
		}
		return true
	}
	if !poll.Until(patience, everywhere) {
		t.Errorf("the masters say %v, want %s = %d on each", seen, held.Owner(), level)
		return
	}
	if poll.Until(50*time.Millisecond, func() bool { return !everywhere() }) {
		t.Errorf("the masters came to say %v, want %s = %d on each", seen, held.Owner(), level)
	}
}

func TestFlowThatHoldsSomeOfTheNames(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	locker := open(t, f, redlock.Open)
	outer := lock(t, locker, "held")
	for _, names := range [][]string{{"held", "free"}, {"free", "held"}, {"free", "held", "free too"}} {
		took(t, "Lock", quick, func() {
			_, err := locker.Lock(outer.Context(), names...)
			wantErr(t, err, quorum.ErrInvalid)
		})
		took(t, "TryLock", quick, func() {
			_, err := locker.TryLock(outer.Context(), names...)
			wantErr(t, err, quorum.ErrInvalid)
		})
	}
	noKeys(t, f.Masters, "free", "free too")
	levelIs(t, f.Masters, outer, 1)

	// Names that the flow does not hold make another lock, beside the first.
	beside := lockWithin(t, outer.Context(), locker, "free", "free too")
	both := lockWithin(t, beside.Context(), locker, "held")
	levelIs(t, f.Masters, outer, 2)
	unlock(t, both)
	unlock(t, beside)
	unlock(t, outer)
	noLocks(t, f.Masters)
}

func TestFromContext(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	locker := open(t, f, redlock.Open)
	if _, ok := quorum.FromContext(t.Context(), "a"); ok {
		t.Error("found a lock in a context without one")
	}
	a := lock(t, locker, "a")
	b := lockWithin(t, a.Context(), locker, "b")
	again := lockWithin(t, b.Context(), locker, "a")
	derived, cancel := context.WithCancel(again.Context())
	defer cancel()
	for _, want := range []struct {
		in   context.Context
		name string
		lock *quorum.Lock
	}{
		{a.Context(), "a", a}, {a.Context(), "b", nil}, {b.Context(), "a", a}, {b.Context(), "b", b},
		{derived, "a", again}, {derived, "b", b}, {derived, "c", nil},
	} {
		got, ok := quorum.FromContext(want.in, want.name)
		if got != want.lock || ok != (want.lock != nil) {
			t.Errorf("%s: found %p, %v, want %p", want.name, got, ok, want.lock)
		}
	}
	unlock(t, again)
	if got, _ := quorum.FromContext(derived, "a"); got != a {
		t.Errorf("found %p after the inner one was unlocked, want the outer one %p", got, a)
	}
	unlock(t, b)
	unlock(t, a)
	if _, ok := quorum.FromContext(derived, "a"); ok {
		t.Error("found a lock that was unlocked")
	}
}

// A nested acquire whose reply is lost raises a server's level to 2. The level falls to 1 once the
// server is reached again, and the outer lock is held all the time.
func TestLostReplyToNestedAcquire(t *testing.T) {
	t.Parallel()
	for kind, timeout := range map[string]time.Duration{
		"given up before the timeout": nodeTimeout,
		"until the timeout":           briefTimeout,
	} {
		for _, lost := range []int{2, 3} {
			t.Run(kind+", "+strconv.Itoa(lost)+" of 3 lost", func(t *testing.T) {
				t.Parallel()
				f := fleet(t, 3)
				net := proxied(t, f)
				locker := open(t, net, redlock.Open, quorum.WithNodeOptions(node.WithTimeout(timeout)))
				outer := lock(t, locker, "account")
				levelIs(t, f.Masters, outer, 1)
				for _, p := range net.proxies[:lost] {
					p.set(replies, weather{dropped: true})
				}
				ctx, cancel := context.WithTimeout(outer.Context(), soon)
				defer cancel()
				givenUp := make(chan struct{})
				go func() {
					defer close(givenUp)
					if timeout == nodeTimeout && poll.Until(patience, func() bool { return !slices.ContainsFunc(net.proxies[:lost], undropped) }) {
						cancel()
					}
				}()
				_, err := locker.Lock(ctx, "account")
				<-givenUp
				wantErr(t, err, quorum.ErrNotAcquired)
				eventually(t, patience, func() bool { return !slices.ContainsFunc(net.proxies[:lost], undropped) },
					"the replies are lost")
				if !outer.Valid() || outer.Level() != 1 {
					t.Errorf("outer lock: valid %v, level %d, %v", outer.Valid(), outer.Level(), outer.Err())
				}
				net.each((*proxy).heal)
				levelIs(t, f.Masters, outer, 1)

				eventually(t, patience, func() bool { return outer.Extend(t.Context(), 30*time.Second) == nil },
					"the nodes answer again")
				inner := lockWithin(t, outer.Context(), locker, "account")
				levelIs(t, f.Masters, outer, 2)
				unlock(t, inner)
				levelIs(t, f.Masters, outer, 1)
				unlock(t, outer)
				noLocks(t, f.Masters)
			})
		}
	}
}

func undropped(p *proxy) bool { return p.drops() == 0 }

// PERSIST makes a lease endless. Entering again does not shorten it: the holder relies on what
// Extend got.
func TestReenterAfterPersist(t *testing.T) {
	t.Parallel()
	const lease, extended = 2 * time.Second, 25 * time.Second
	f := fleet(t, 3)
	holder := open(t, f, redlock.Open, quorum.WithFixedLease(lease))
	outer := lock(t, holder, "bridge")
	grantedByAll(t, f.Masters, "bridge")
	must(t, outer.Extend(t.Context(), extended))
	onAll(t, f, "PERSIST", "bridge")
	inner := lockWithin(t, outer.Context(), holder, "bridge")
	if left := time.Until(inner.Deadline()); left < extended/2 {
		t.Fatalf("the holder counts on %v", left)
	}

	contender := open(t, f, redlock.Open)
	ctx, cancel := context.WithTimeout(t.Context(), 2*lease)
	defer cancel()
	second, err := contender.Lock(ctx, "bridge")
	if err == nil {
		t.Fatalf("two holders: A valid %v until %v, B valid %v", outer.Valid(), outer.Deadline(), second.Valid())
	}
	wantErr(t, err, quorum.ErrHeld)
	for _, m := range f.Masters {
		if left := do(t, m, "PTTL", "bridge"); left != int64(-1) {
			t.Errorf("%s keeps the key for %v ms", m.Addr(), left)
		}
	}
	if !outer.Valid() || !inner.Valid() {
		t.Errorf("A: %v, %v", outer.Err(), inner.Err())
	}
	unlock(t, inner)
	unlock(t, outer)
	noKeys(t, f.Masters, "bridge")
}
