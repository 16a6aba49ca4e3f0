package integration_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

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

func TestForceUnlock(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease = 2 * time.Second
			f := fleet(t, 3)
			holder := open(t, f, by, quorum.WithLease(lease))
			operator := open(t, f, by)
			held := lock(t, holder, "bridge", "tunnel")
			token := held.Token()
			must(t, operator.ForceUnlock(t.Context(), "bridge", "nobody's"))
			if left := leftOver(t, f.Masters, "bridge"); len(left) > 0 {
				t.Error("right after ForceUnlock:", left)
			}
			var cause error
			took(t, "the holder's end", lease, func() { cause = ended(t, held, patience) })
			want(t, cause, quorum.ErrLost, "127.0.0.1:")
			// Time passing is the point: renewals and repairs within two leases would bring the
			// lock back.
			began, looks := time.Now(), 0
			for time.Since(began) < 2*lease || looks < 20 {
				if left := leftOver(t, f.Masters, "bridge"); len(left) > 0 {
					t.Fatalf("%v after: %v", time.Since(began), left)
				}
				looks++
				pass(t, 5*time.Millisecond)
			}
			noKeys(t, f.Masters, "tunnel") // the holder releases the rest when it learns of the loss
			next := lock(t, operator, "bridge")
			if next.Token() <= token {
				t.Errorf("token %d after %d", next.Token(), token)
			}
			wantErr(t, held.Unlock(t.Context()), quorum.ErrLost)
			if !next.Valid() {
				t.Error(next.Err())
			}
			unlock(t, next)
		})
	}
}

// ForceUnlock reaches the masters one after another, with several renewals between. No repair
// brings the lock back on a master that was forced first.
func TestForceUnlockOverSlowPaths(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	f := fleet(t, 3)
	net := proxied(t, f)
	holder := open(t, f, redlock.Open, quorum.WithLease(lease))
	operator := open(t, net, redlock.Open, quorum.WithNodeOptions(node.WithTimeout(patience)))
	held := lock(t, holder, "bridge")
	eventually(t, patience, func() bool { return len(leftOver(t, f.Masters, "bridge")) == 3 }, "the lock is on all masters")
	for i, p := range net.proxies {
		p.set(requests, weather{latency: time.Duration(i) * lease})
	}
	forced := make(chan error, 1)
	go func() { forced <- operator.ForceUnlock(t.Context(), "bridge") }()
	var gone [3]bool
	for done := false; !done; {
		select {
		case err := <-forced:
			must(t, err)
			done = true
		default:
		}
		for i, hash := range keys(t, f.Masters, "bridge") {
			if gone[i] && hash != nil {
				t.Fatalf("back on master %d: %v", i+1, hash)
			}
			gone[i] = hash == nil
		}
		pass(t, 5*time.Millisecond)
	}
	wantErr(t, ended(t, held, patience), quorum.ErrLost)
	noKeys(t, f.Masters, "bridge")
}

func TestInspect(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	l := open(t, f, redlock.Open)
	free, err := l.Inspect(t.Context(), "bridge")
	if err != nil || free.Owner != "" || free.Level != 0 || free.Token != 0 || free.TTL != 0 {
		t.Errorf("a free name: %+v, %v", free, err)
	}
	outer := lock(t, l, "bridge")
	inner := lockWithin(t, outer.Context(), l, "bridge")
	must(t, f.Masters[1].Kill())

	state, err := l.Inspect(t.Context(), "bridge")
	must(t, err)
	if state.Name != "bridge" || state.Owner != outer.Owner() || state.Level != 2 || state.Token != outer.Token() ||
		state.TTL <= 25*time.Second || state.TTL > 30*time.Second || len(state.Nodes) != 3 {
		t.Errorf("by the quorum rule: %+v", state)
	}
	for i, n := range state.Nodes {
		addr := f.Masters[i].Addr()
		switch {
		case n.Node != addr:
			t.Errorf("node %d is %s, want %s", i+1, n.Node, addr)
		case i == 1:
			var failed *node.Error
			if !errors.As(n.Err, &failed) || failed.Node != addr || n.Owner != "" {
				t.Errorf("the dead node: %+v", n)
			}
		case n.Err != nil || n.Owner != outer.Owner() || n.Level != 2 || n.Token != outer.Token() ||
			n.TTL <= 25*time.Second || n.Quarantine != 0:
			t.Errorf("node %d: %+v", i+1, n)
		}
	}

	// A minority does not make an owner, but Inspect shows it at its node.
	do(t, f.Masters[0], "HSET", "ferry", "other:1", "3")
	minority, err := l.Inspect(t.Context(), "ferry")
	if err != nil || minority.Owner != "" || minority.Nodes[0].Owner != "other:1" ||
		minority.Nodes[0].Level != 3 || minority.Nodes[0].TTL != -1 {
		t.Errorf("a minority: %+v, %v", minority, err)
	}
	unlock(t, inner)
	unlock(t, outer)

	must(t, f.Masters[2].Kill())
	_, err = l.Inspect(t.Context(), "bridge")
	want(t, err, quorum.ErrUnavailable, f.Masters[1].Addr(), f.Masters[2].Addr())
	want(t, l.ForceUnlock(t.Context(), "bridge"), quorum.ErrUnavailable, f.Masters[1].Addr(), f.Masters[2].Addr())
}

func TestCloseWithLocksHeld(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for _, owned := range []bool{true, false} {
		t.Run(map[bool]string{true: "Open", false: "New"}[owned], func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			l := open(t, f, redlock.Open, quorum.WithLease(lease))
			if !owned {
				var err error
				l, err = redlock.New(nodes(t, f.URLs()...), quorum.WithLease(lease))
				must(t, err)
			}
			held, kept := lock(t, l, "bridge"), lock(t, l, "tunnel")
			inner := lockWithin(t, held.Context(), l, "bridge")
			waiting := make(chan error, 1)
			go func() { _, err := l.Lock(t.Context(), "bridge"); waiting <- err }()
			// Two renewals happen first: the next would fall between Close and the end of the
			// lease.
			eventually(t, patience, func() bool {
				left := time.Until(held.Deadline())
				return left > lease*2/3 && left < lease*3/4
			},
				"a third of the lease is nearly over")

			ends := kept.Deadline()
			took(t, "Close", soon/4, func() { must(t, l.With().Close()) })
			for _, one := range []*quorum.Lock{held, kept, inner} {
				wantErr(t, context.Cause(one.Context()), quorum.ErrClosed) // nil if it has not ended by now
				wantErr(t, one.Err(), quorum.ErrClosed)
				if one.Valid() {
					t.Errorf("%q is valid after Close", one.Names())
				}
			}
			wantErr(t, <-waiting, quorum.ErrClosed)
			_, err := l.TryLock(t.Context(), "ferry")
			wantErr(t, err, quorum.ErrClosed, quorum.ErrNotAcquired)
			_, err = l.Inspect(t.Context(), "bridge")
			wantErr(t, err, quorum.ErrClosed)

			for i, hash := range keys(t, f.Masters, "tunnel") {
				if hash[kept.Owner()] != "1" {
					t.Errorf("master %d lost the key at Close: %v", i+1, hash)
				}
			}
			err = held.Unlock(t.Context())
			if owned {
				wantErr(t, err, quorum.ErrClosed)
			} else if err != nil {
				t.Errorf("Unlock over nodes that are open: %v", err)
			} else {
				noKeys(t, f.Masters, "bridge")
			}
			must(t, l.Close())

			last := make([]int64, 3) // without renewals the time to live only falls
			eventually(t, lease+patience, func() bool {
				gone := 0
				for i, m := range f.Masters {
					left := do(t, m, "PTTL", "tunnel").(int64)
					if last[i] != 0 && left > last[i] {
						t.Errorf("renewed after Close: from %d ms to %d ms", last[i], left)
					}
					if last[i] = left; left < 0 {
						gone++
					}
				}
				return gone == 3
			}, "the keys end with their lease")
			if early := time.Until(ends); early > 0 {
				t.Errorf("the keys were gone %v before their lease was over", early)
			}
		})
	}
}

// record keeps what the hooks and the log report.
type record struct {
	mu   sync.Mutex
	told []string
	log  bytes.Buffer
}

func (r *record) tell(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, what)
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *record) all() (told, log string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.told, ", "), r.log.String()
}

func TestHooksAndLogger(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	r := &record{}
	lost := make(chan error, 1)
	l := open(t, f, redlock.Open, quorum.WithLease(2*time.Second),
		quorum.WithLogger(slog.New(slog.NewTextHandler(r, nil))),
		quorum.WithHooks(quorum.Hooks{
			Acquired: func(l *quorum.Lock) { r.tell("acquired " + l.Names()[0]) },
			Released: func(l *quorum.Lock) { r.tell("released " + l.Names()[0]) },
			Lost: func(l *quorum.Lock, err error) {
				r.tell("lost " + l.Names()[0])
				lost <- err
			},
		}))
	outer := lock(t, l, "bridge")
	inner, err := l.Lock(outer.Context(), "bridge")
	must(t, err)
	unlock(t, inner)
	unlock(t, outer)
	if told, log := r.all(); told != "acquired bridge, released bridge" || log != "" {
		t.Errorf("told %q, logged %q", told, log)
	}
	held := lock(t, l, "tunnel")
	killAll(t, f)
	select {
	case err := <-lost:
		want(t, err, quorum.ErrLost, "tunnel", "127.0.0.1:")
	case <-time.After(patience):
		t.Fatal("the hook Lost was not called")
	}
	wantErr(t, held.Unlock(t.Context()), quorum.ErrLost)
	eventually(t, patience, func() bool {
		_, log := r.all()
		return strings.Count(log, "node down") == 3
	}, "the nodes' ends logged")
	told, log := r.all()
	if told != "acquired bridge, released bridge, acquired tunnel, lost tunnel" {
		t.Errorf("told %q", told)
	}
	for _, word := range []string{"level=WARN", "tunnel", held.Owner(), f.Masters[0].Addr()} {
		if !strings.Contains(log, word) {
			t.Errorf("the log does not say %q: %s", word, log)
		}
	}
	if n := strings.Count(log, "lock lost"); n != 1 {
		t.Errorf("the loss was logged %d times: %s", n, log)
	}
}

func killAll(t *testing.T, f *redistest.Fleet) {
	t.Helper()
	for _, m := range f.Masters {
		must(t, m.Kill())
	}
}
