package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// foreign are hashes that an application keeps at the name of a lock.
var foreign = map[string]map[string]string{
	"a profile": {"name": "bob"},
	"a count":   {"visits": "17"},
	"a record":  {"name": "bob", "visits": "17"},
}

// noLock is in every answer about such a hash.
const noLock = `the key "bridge" holds a hash that is no lock`

func spoil(t *testing.T, m *redistest.Master, name string, hash map[string]string) {
	t.Helper()
	args := []any{"HSET", name}
	for field, value := range hash {
		args = append(args, field, value)
	}
	do(t, m, args...)
}

// intact fails the test unless the hash stands on the masters as it did.
func intact(t *testing.T, ms []*redistest.Master, name string, hash map[string]string) {
	t.Helper()
	for i, m := range ms {
		kept, err := redis.StringMap(m.Do("HGETALL", name))
		if left := do(t, m, "PTTL", name); err != nil || !maps.Equal(kept, hash) || left != int64(-1) {
			t.Errorf("master %d: %v for %v ms, %v", i+1, kept, left, err)
		}
	}
}

// A hash of an application at the name is no lock: Lock neither waits for its end nor deletes it. A
// minority of nodes with such a hash is outvoted.
func TestHashOfAnApplicationAtTheName(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for what, hash := range foreign {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			l := open(t, f, redlock.Open, quorum.WithLease(lease))
			all := open(t, f, multilock.Open)

			spoil(t, f.Masters[0], "bridge", hash)
			held := lock(t, l, "bridge")
			outlives(t, held, lease, 1.5) // renewals and repairs meet the hash
			state, err := l.Inspect(short(t), "bridge")
			if err != nil || state.Owner != held.Owner() || state.Nodes[0].Err == nil {
				t.Errorf("inspected: %+v, %v", state, err)
			}
			unlock(t, held)
			noKeys(t, f.Masters[1:], "bridge")
			permanently(t, all, f.Masters[0].Addr(), noLock)
			noKeys(t, f.Masters[1:], "bridge")

			spoil(t, f.Masters[1], "bridge", hash)
			permanently(t, l, noLock, f.Masters[0].Addr(), f.Masters[1].Addr())
			noKeys(t, f.Masters[2:], "bridge") // the attempts are undone
			spoil(t, f.Masters[2], "bridge", hash)
			permanently(t, l, noLock)
			want(t, l.ForceUnlock(short(t), "bridge"), quorum.ErrUnavailable, noLock, f.Masters[0].Addr())
			_, err = l.Inspect(short(t), "bridge")
			want(t, err, quorum.ErrUnavailable, noLock)
			intact(t, f.Masters, "bridge", hash)
			onlyKeys(t, f.Masters, "bridge", counterOf("bridge"))
		})
	}
}

// Waiters probe one node first. The lock is handed on even if the probe node holds a foreign hash,
// and publishes nothing.
func TestWaitersPassAHashOfAnApplication(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	holder, waiter := open(t, f, redlock.Open), open(t, f, redlock.Open)
	for i, m := range f.Masters {
		name := fmt.Sprintf("bridge %d", i)
		spoil(t, m, name, map[string]string{"name": "bob"})
		held := lock(t, holder, name)
		w := wait(t, t.Context(), waiter, f.Masters, name)
		since := stopwatch(t)
		unlock(t, held)
		woken(t, w, since, wakes)
	}
}

// ForceUnlock removes each lock on each node, whatever the other keys and nodes hold.
func TestForceUnlockLeavesWhatIsNoLock(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	operator := open(t, f, redlock.Open)
	hash := map[string]string{"name": "bob"}
	for _, m := range f.Masters {
		spoil(t, m, "bridge", hash)
		spoil(t, m, "tunnel", map[string]string{"8743c9c0-0795-4907-87fd-6c719a6b4586:17": "2"})
	}
	spoil(t, f.Masters[0], "ferry", hash)
	for _, m := range f.Masters[1:] {
		spoil(t, m, "ferry", map[string]string{"other:1": "1"})
	}
	want(t, operator.ForceUnlock(short(t), "bridge", "tunnel", "ferry"), quorum.ErrUnavailable, noLock,
		f.Masters[0].Addr(), f.Masters[1].Addr(), f.Masters[2].Addr())
	noKeys(t, f.Masters, "tunnel")
	noKeys(t, f.Masters[1:], "ferry")
	intact(t, f.Masters, "bridge", hash)
	intact(t, f.Masters[:1], "ferry", hash)
	must(t, operator.ForceUnlock(short(t), "ferry"))
	intact(t, f.Masters[:1], "ferry", hash)
}

// A field of an application's hash may look like an owner.
func TestForceUnlockOwnerLeavesWhatIsNoLock(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	operator := open(t, f, redlock.Open)
	for what, hash := range map[string]map[string]string{
		"bridge": {"user:17": "visits", "user:18": "2"},
		"tunnel": {"user:17": "visits"},
	} {
		for _, m := range f.Masters {
			spoil(t, m, what, hash)
		}
		want(t, operator.ForceUnlockOwner(short(t), "user:17", what), quorum.ErrUnavailable, "that is no lock")
		intact(t, f.Masters, what, hash)
	}
}

// What Inspect calls no lock, for its length, ForceUnlock leaves alone.
func TestForceUnlockLeavesWhatIsTooLongForALock(t *testing.T) {
	f := fleet(t, 3)
	l := open(t, f, redlock.Open)
	onAll(t, f, "HSET", "session", strings.Repeat("u", 5000), "1")
	onAll(t, f, "EXPIRE", "session", 1000)
	if _, err := l.Inspect(t.Context(), "session"); err == nil || !strings.Contains(err.Error(), "no lock") {
		t.Fatalf("Inspect: %v", err)
	}
	if err := l.ForceUnlock(t.Context(), "session"); !errors.Is(err, quorum.ErrUnavailable) {
		t.Errorf("ForceUnlock: %v, want an error of every node's", err)
	}
	for _, m := range f.Masters {
		if there, err := redis.Bool(m.Do("EXISTS", "session")); err != nil || !there {
			t.Errorf("%s: it is deleted (%v)", m.Addr(), err)
		}
	}
}
