package integration_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// onAll runs one command on every master at the same time.
func onAll(t *testing.T, f *redistest.Fleet, args ...any) {
	t.Helper()
	var all sync.WaitGroup
	for _, m := range f.Masters {
		all.Go(func() {
			if _, err := m.Do(args...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// again runs one command on every master at an interval, but only after enough new work. Times
// returns how often the command ran, stop ends the repetition.
func again(t *testing.T, f *redistest.Fleet, every time.Duration, work *atomic.Int64, args ...any) (times func() int, stop func()) {
	t.Helper()
	end, ended := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	go func() {
		defer close(ended)
		last := work.Load()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				if now := work.Load(); now >= last+60 { // three for each worker
					onAll(t, f, args...)
					last = work.Load()
					n.Add(1)
				}
			}
		}
	}()
	return func() int { return int(n.Load()) }, func() { close(end); <-ended }
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	f := fleet(t, 3)
	l := open(t, f, redlock.Open, quorum.WithLease(lease))
	held, other := lock(t, l, "bridge"), lock(t, l, "tunnel")
	onAll(t, f, "CONFIG", "SET", "maxmemory", "1")

	_, err := l.TryLock(t.Context(), "ferry")
	want(t, err, quorum.ErrUnavailable, "OOM", `"ferry"`, "127.0.0.1:")
	wantErr(t, err, quorum.ErrNotAcquired)
	brief, cancel := context.WithTimeout(t.Context(), lease/2)
	defer cancel()
	_, err = l.Lock(brief, "ferry")
	want(t, err, context.DeadlineExceeded, "OOM")
	wantErr(t, err, quorum.ErrNotAcquired)
	_, err = l.TryLock(held.Context(), "bridge")
	want(t, err, quorum.ErrNotAcquired, "OOM")

	// New connections, scripts that are not loaded: renewals have to cope with both.
	onAll(t, f, "SCRIPT", "FLUSH")
	onAll(t, f, "CLIENT", "KILL", "TYPE", "normal")
	// Time passing is the point: the lock would have ended twice.
	pass(t, 2*lease)
	for _, one := range []*quorum.Lock{held, other} {
		areRenewed(t, lease, one)
		if one.Level() != 1 {
			t.Errorf("%q: level %d", one.Names(), one.Level())
		}
	}
	if left := leftOver(t, f.Masters, "ferry"); len(left) > 0 {
		t.Error("a failed attempt left", left)
	}
	unlock(t, held)
	must(t, l.ForceUnlock(short(t), "tunnel"))
	noKeys(t, f.Masters, "bridge", "tunnel")

	onAll(t, f, "CONFIG", "SET", "maxmemory", "0")
	unlock(t, lock(t, l, "ferry"))
}

// An inner Unlock succeeds though the servers cannot write the level.
func TestInnerUnlockOutOfMemory(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	l := open(t, f, multilock.Open)
	outer := lock(t, l, "bridge")
	inner := lockWithin(t, outer.Context(), l, "bridge")
	onAll(t, f, "CONFIG", "SET", "maxmemory", "1")
	unlock(t, inner)
	if !outer.Valid() || outer.Level() != 1 {
		t.Errorf("outer: valid %v, level %d", outer.Valid(), outer.Level())
	}
	unlock(t, outer)
	noKeys(t, f.Masters, "bridge")
}

// busy runs 20 workers that lock and unlock names of their own, in one attempt each, and fails the
// test if an attempt fails. It counts attempts in done. The workers go on for d, and on a slow machine
// for up to 4 d until there was enough.
func busy(t *testing.T, l *quorum.Locker, d time.Duration, done *atomic.Int64, enough func() bool) {
	t.Helper()
	var workers sync.WaitGroup
	var failed atomic.Int64
	began := time.Now()
	goOn := func() bool { took := time.Since(began); return took < d || took < 2*patience && !enough() }
	for w := range 20 {
		workers.Go(func() {
			name := fmt.Sprintf("worker %d", w)
			for goOn() {
				held, err := l.TryLock(t.Context(), name)
				if err == nil {
					if !held.Valid() {
						t.Errorf("%q is not valid: %v", name, held.Err())
					}
					err = held.Unlock(t.Context())
				}
				if err != nil {
					if failed.Add(1) < 5 {
						t.Errorf("%q: %v", name, err)
					}
					pass(t, 5*time.Millisecond) // failures are quick: a loop of them would starve the other workers
				}
				done.Add(1)
			}
		})
	}
	workers.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d failed", n, done.Load())
	}
}

// whole fails the test unless the locks are valid, and are on all masters. It unlocks them.
func whole(t *testing.T, f *redistest.Fleet, held []*quorum.Lock) {
	t.Helper()
	for _, one := range held {
		if !one.Valid() {
			t.Errorf("%q: %v", one.Names(), one.Err())
		}
		if !poll.Until(patience, func() bool { return len(leftOver(t, f.Masters, one.Names()...)) == len(f.Masters) }) {
			t.Errorf("%q is only on %v", one.Names(), leftOver(t, f.Masters, one.Names()...))
		}
		unlock(t, one)
	}
}

func TestServersThatForgetScriptsOrConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		by    opener
		every time.Duration
		args  []any
	}{
		{"script flush, redlock", redlock.Open, 2 * time.Millisecond, []any{"SCRIPT", "FLUSH"}},
		{"script flush, multilock", multilock.Open, 2 * time.Millisecond, []any{"SCRIPT", "FLUSH"}},
		{"client kill, redlock", redlock.Open, 100 * time.Millisecond, []any{"CLIENT", "KILL", "TYPE", "normal"}},
		{"client kill, multilock", multilock.Open, 100 * time.Millisecond, []any{"CLIENT", "KILL", "TYPE", "normal"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fleet(t, 3)
			l := open(t, f, c.by, quorum.WithLease(3*time.Second))
			var held []*quorum.Lock
			for i := range 20 {
				held = append(held, lock(t, l, fmt.Sprintf("held %d", i)))
			}
			var pairs atomic.Int64
			times, stop := again(t, f, c.every, &pairs, c.args...)
			busy(t, l, 1500*time.Millisecond, &pairs, func() bool { return times() >= 5 })
			stop()
			t.Logf("%d locks and unlocks, %d times %v", pairs.Load(), times(), c.args)
			if times() < 5 {
				t.Errorf("the servers forgot only %d times", times())
			}
			whole(t, f, held)
			var names []string
			for w := range 20 {
				names = append(names, fmt.Sprintf("worker %d", w))
			}
			noKeys(t, f.Masters, names...)
		})
	}
}

// The master releases the lock, but its connection dies before the reply. The resent release finds
// nothing, which Unlock does not take for an earlier loss.
func TestUnlockWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	net := proxied(t, f)
	l := open(t, net, redlock.Open)
	held := lock(t, l, "bridge")
	net.each(func(p *proxy) { p.set(replies, weather{dropped: true}) })
	unlocked := make(chan error, 1)
	go func() { unlocked <- held.Unlock(t.Context()) }()
	noKeys(t, f.Masters, "bridge")
	net.each((*proxy).heal)
	if err := <-unlocked; err != nil {
		t.Errorf("Unlock of a lock that was held: %v", err)
	}
}
