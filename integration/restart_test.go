package integration_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// careful opens a Locker that keeps nodes in quarantine after they forgot, and closes it when the
// test ends.
func careful(t *testing.T, nodes addressed, by opener, maxLease time.Duration, opts ...quorum.Option) *quorum.Locker {
	t.Helper()
	usual := quorum.WithNodeOptions(node.WithTimeout(nodeTimeout), node.WithMaxLease(maxLease))
	locker, err := by(nodes.URLs(), append([]quorum.Option{usual}, opts...)...)
	must(t, err)
	t.Cleanup(func() { must(t, locker.Close()) })
	return locker
}

// admit admits the masters, as an operator does.
func admit(t *testing.T, maxLease time.Duration, ms ...*redistest.Master) {
	t.Helper()
	for _, m := range ms {
		n, err := node.Open(m.URL(), node.WithMaxLease(maxLease), node.WithTimeout(soon))
		must(t, err)
		must(t, n.Admit(t.Context()))
		must(t, n.Close())
	}
}

// restart kills a master and starts it again.
func restart(t *testing.T, m *redistest.Master) {
	t.Helper()
	must(t, m.Kill())
	must(t, m.Start())
}

// resync gives a master the dataset of an empty one, and keeps the master's connections.
func resync(t *testing.T, m *redistest.Master) {
	t.Helper()
	empty := fleet(t, 1, "--repl-diskless-sync-delay", "0").Masters[0]
	host, port, err := net.SplitHostPort(empty.Addr())
	must(t, err)
	do(t, m, "REPLICAOF", host, port)
	eventually(t, patience, func() bool {
		role, err := redis.Values(m.Do("ROLE"))
		return err == nil && string(role[3].([]byte)) == "connected"
	}, "the resync is done")
	do(t, m, "REPLICAOF", "NO", "ONE")
}

// ways in which a master forgets.
var ways = []struct {
	name     string
	maxLease time.Duration // longer than it takes, on a machine that is not too slow
	forget   func(*testing.T, *redistest.Master)
}{
	{"restart", 4 * time.Second, restart},
	{"flush", 3 * time.Second, func(t *testing.T, m *redistest.Master) { do(t, m, "FLUSHALL") }},
	{"resync", 4 * time.Second, resync},
}

// A holds on masters 1 and 2, because 3 has another owner. Then 2 forgets, and 3 becomes free: B
// could get 2 and 3. The quarantine prevents that while A holds. Without it the same schedule shows
// two holders.
func TestMasterThatForgotDoesNotVoteTwice(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, way.maxLease, func(maxLease time.Duration) bool {
				f := fleet(t, 3)
				admit(t, maxLease, f.Masters...)
				a, b := careful(t, f, redlock.Open, maxLease), careful(t, f, redlock.Open, maxLease)
				first, second, quarantines := voteTwice(t, f, a, b, maxLease, way.forget)
				switch {
				case first == nil:
					return false
				case second != nil:
					t.Fatalf("two holders: A until %v, B until %v, now %v", first.Deadline(), second.Deadline(), time.Now())
				case quarantines == 0:
					t.Error("B never met the quarantine: it did not ask in time")
				}
				ended := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), maxLease+patience)
				defer cancel()
				second, err := b.Lock(ctx, "bridge")
				must(t, err)
				t.Logf("%d attempts of B met the quarantine; B was granted %v after A's end", quarantines, time.Since(ended))
				if second.Token() <= first.Token() {
					t.Errorf("token %d after %d", second.Token(), first.Token())
				}
				unlock(t, second)
				return true
			})
		})
		t.Run(way.name+" without quarantine", func(t *testing.T) {
			t.Parallel()
			inTime(t, way.maxLease, func(maxLease time.Duration) bool {
				f := fleet(t, 3)
				trusting := quorum.WithNodeOptions(node.WithoutQuarantine())
				a := careful(t, f, redlock.Open, maxLease, trusting)
				b := careful(t, f, redlock.Open, maxLease, trusting)
				first, second, _ := voteTwice(t, f, a, b, maxLease, way.forget)
				if first != nil && second == nil {
					t.Error("one holder at a time: the schedule proves nothing about the quarantine")
				}
				return first != nil
			})
		})
	}
}

// voteTwice runs that schedule until A's lock ends. The second lock is not nil if B got it while A
// held: both were Valid at one time. The first is nil if its lease was over before the schedule.
func voteTwice(t *testing.T, f *redistest.Fleet, a, b *quorum.Locker, lease time.Duration,
	forget func(*testing.T, *redistest.Master)) (first, second *quorum.Lock, quarantines int) {
	t.Helper()
	unlock(t, lock(t, b, "warm up")) // B has its connections
	do(t, f.Masters[2], "HSET", "bridge", "other:1", "1")
	do(t, f.Masters[2], "PEXPIRE", "bridge", "60000")
	// A does not renew, so it learns nothing from its masters.
	first = lock(t, a.With(quorum.WithFixedLease(lease)), "bridge")
	for i, hash := range keys(t, f.Masters, "bridge") {
		if _, ok := hash[first.Owner()]; ok != (i < 2) && first.Valid() {
			t.Fatalf("master %d: %v", i+1, hash)
		}
	}

	forget(t, f.Masters[1])
	do(t, f.Masters[2], "DEL", "bridge")
	if time.Until(first.Deadline()) < lease/4 { // B may not get to ask
		return nil, nil, 0
	}
	b = b.With(quorum.WithFixedLease(lease))
	for first.Valid() {
		lock, err := b.TryLock(t.Context(), "bridge")
		var why *quorum.Error
		switch {
		case err == nil && lock.Valid() && first.Valid() && lock.Valid():
			return first, lock, quarantines
		case err == nil:
			unlock(t, lock)
		case errors.As(err, &why) && why.Quarantined > 0:
			quarantines++
		}
		pass(t, 2*time.Millisecond)
	}
	return first, nil, quarantines
}

// vow returns a master's state at one instant: whether the key exists, and how long the quarantine
// lasts.
func vow(t *testing.T, m *redistest.Master, name string) (there bool, quarantine time.Duration, known bool) {
	t.Helper()
	reply, err := redis.Ints(m.Do("EVAL", `local t = redis.call('TIME')
		local admitted = string.match(redis.call('GET', 'quorumlock:marker') or '', '^%d+')
		local left = admitted and admitted - (t[1] * 1000 + math.floor(t[2] / 1000)) or 0
		return {redis.call('EXISTS', KEYS[1]), left, admitted and 1 or 0}`, "1", name))
	must(t, err)
	return reply[0] == 1, time.Duration(reply[1]) * time.Millisecond, reply[2] == 1
}

// A holder's renewals put its key back on a master that forgot, but only once the master is
// admitted.
func TestRepairWaitsForTheEndOfQuarantine(t *testing.T) {
	t.Parallel()
	for _, way := range ways[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			const maxLease = 3 * time.Second
			f := fleet(t, 3)
			admit(t, maxLease, f.Masters...)
			a := careful(t, f, redlock.Open, maxLease, quorum.WithLease(2*time.Second))
			held := lock(t, a, "bridge")
			third := f.Masters[2]
			eventually(t, patience, func() bool { there, _, _ := vow(t, third, "bridge"); return there },
				"A is on all masters")
			way.forget(t, third)

			began, looks := time.Now(), 0
			if !poll.Until(maxLease+patience, func() bool {
				there, left, known := vow(t, third, "bridge")
				if known && left > 0 || !known {
					looks++
				}
				if there && (left > 0 || !known) {
					t.Fatalf("the key is there with %v of the quarantine left", left)
				}
				return there
			}) {
				t.Fatalf("the key is not there again; A: valid %v, %v; keys %v",
					held.Valid(), held.Err(), keys(t, f.Masters, "bridge"))
			}
			if looks < 20 || time.Since(began) < maxLease/2 {
				t.Errorf("only %d looks in %v", looks, time.Since(began))
			}
			t.Logf("repaired %v after, %d looks before", time.Since(began), looks)
			if hash := keys(t, f.Masters, "bridge")[2]; hash[held.Owner()] != "1" {
				t.Errorf("the repaired key: %v", hash)
			}
			if !held.Valid() {
				t.Errorf("A: %v", held.Err())
			}
			unlock(t, held)
			noKeys(t, f.Masters, "bridge")
		})
	}
}

func TestRepairFollowsTheOperatorsWord(t *testing.T) {
	t.Parallel()
	const lease, maxLease = 2 * time.Second, time.Minute
	f := fleet(t, 3)
	admit(t, maxLease, f.Masters...)
	a := careful(t, f, redlock.Open, maxLease, quorum.WithLease(lease))
	held := lock(t, a, "bridge")
	restart(t, f.Masters[2])
	eventually(t, patience, func() bool { _, _, known := vow(t, f.Masters[2], "bridge"); return known }, "the master is marked")
	// Time passing is the point: a renewal finds the master in quarantine.
	pass(t, lease/2)
	if there, left, _ := vow(t, f.Masters[2], "bridge"); there || left < maxLease/2 {
		t.Fatalf("in quarantine: key there %v, %v left", there, left)
	}
	admit(t, maxLease, f.Masters[2])
	began := time.Now()
	eventually(t, patience, func() bool { there, _, _ := vow(t, f.Masters[2], "bridge"); return there },
		"repair after Admit")
	t.Logf("repaired %v after Admit", time.Since(began))
	counter := string(do(t, f.Masters[2], "GET", counterOf("bridge")).([]byte))
	if counter != strconv.FormatUint(held.Token(), 10) {
		t.Errorf("token counter %s, want the token carried, %d", counter, held.Token())
	}
	unlock(t, held)
}

// A lock outlives all of its masters, as long as they restart one after another and each has time
// to be repaired.
func TestLockOutlivesItsMasters(t *testing.T) {
	t.Parallel()
	const maxLease = 3 * time.Second
	f := fleet(t, 3)
	admit(t, maxLease, f.Masters...)
	a := careful(t, f, redlock.Open, maxLease)
	b := careful(t, f, redlock.Open, maxLease)
	held := lock(t, a, "bridge")
	owner, token := held.Owner(), held.Token()
	// A bare majority must not restart.
	eventually(t, patience, func() bool {
		return !slices.ContainsFunc(keys(t, f.Masters, "bridge"), func(hash map[string]string) bool { return hash[owner] == "" })
	}, "A is on all masters")

	stop, contended := make(chan struct{}), make(chan int)
	go func() {
		tries := 0
		defer func() { contended <- tries }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if second, err := b.TryLock(t.Context(), "bridge"); err == nil {
				t.Errorf("B was granted with token %d while A, with %d, was valid: %v",
					second.Token(), token, held.Valid())
				return
			}
			tries++
			pass(t, 5*time.Millisecond) // without a pause its short-lived votes keep the repair out for many renewals
		}
	}()
	for i, m := range f.Masters {
		restart(t, m)
		if !poll.Until(maxLease+patience, func() bool { return keys(t, f.Masters, "bridge")[i][owner] != "" }) {
			t.Fatalf("master %d was not repaired; A: valid %v, %v; keys %v",
				i+1, held.Valid(), held.Err(), keys(t, f.Masters, "bridge"))
		}
	}
	if !held.Valid() || held.Owner() != owner || held.Token() != token {
		t.Errorf("A: valid %v, owner %s, token %d: %v", held.Valid(), held.Owner(), held.Token(), held.Err())
	}
	close(stop)
	if tries := <-contended; tries < 10 {
		t.Errorf("B tried only %d times", tries)
	}
	unlock(t, held)
	unlock(t, lock(t, b, "bridge"))
}

// isMarkedAnew has a client lock until a master that has restarted is in quarantine: the others have given
// it its list.
func isMarkedAnew(t *testing.T, l *quorum.Locker, m *redistest.Master) {
	t.Helper()
	eventually(t, patience, func() bool {
		if held, err := l.TryLock(t.Context(), "marking"); err == nil {
			unlock(t, held)
		}
		text, err := redis.String(m.Do("GET", scripts.MarkerKey))
		marker, bad := scripts.ParseMarker(text)
		return err == nil && bad == nil && !marker.Claimed &&
			strings.Contains(info(t, m), "run_id:"+marker.Run)
	}, "the master is marked")
}

func info(t *testing.T, m *redistest.Master) string {
	t.Helper()
	text, err := redis.String(m.Do("INFO", "server"))
	must(t, err)
	return text
}

// A master that kept its data goes on renewing while it grants nothing new.
func TestOwnerOnPersistentMasterStaysThroughQuarantine(t *testing.T) {
	t.Parallel()
	inTime(t, 4*time.Second, func(lease time.Duration) bool {
		maxLease := 4 * lease
		f := fleet(t, 3, "--appendonly", "yes", "--appendfsync", "always")
		admit(t, maxLease, f.Masters...)
		a := careful(t, f, redlock.Open, maxLease, quorum.WithLease(lease))
		b := careful(t, f, redlock.Open, maxLease)
		since := stopwatch(t)
		tooSlow := func() bool { // to renew A in time
			took, stalled := since.Read()
			t.Logf("the machine stood still for %v of %v", stalled, took)
			return poll.AtMost(0, stalled) > lease/3
		}
		held := lock(t, a, "bridge")
		restart(t, f.Masters[1])
		isMarkedAnew(t, b, f.Masters[1])
		must(t, f.Masters[2].Kill())

		// Time passing is the point: A would end within one lease if the restarted master did not renew
		// it.
		pass(t, 2*lease)
		if !held.Valid() {
			if tooSlow() {
				return false
			}
			t.Fatalf("A: %v", held.Err())
		}
		state, err := b.Inspect(t.Context(), "bridge")
		must(t, err)
		if second := state.Nodes[1]; state.Owner != held.Owner() || second.Owner != held.Owner() || second.Quarantine <= 0 {
			t.Errorf("state %+v", state)
		}
		_, err = b.TryLock(t.Context(), "another bridge")
		want(t, err, quorum.ErrNotAcquired, "1 in quarantine")

		ctx, cancel := context.WithTimeout(t.Context(), maxLease+patience)
		defer cancel()
		other, err := b.Lock(ctx, "another bridge")
		must(t, err)
		if !held.Valid() {
			if tooSlow() {
				return false
			}
			t.Fatalf("A at the end of the quarantine: %v", held.Err())
		}
		unlock(t, other)
		unlock(t, held)
		noKeys(t, f.Masters[:2], "bridge", "another bridge")
		return true
	})
}

// A new deployment grants nothing until one max lease has passed, and its errors say so.
func TestNewDeploymentWaitsOneMaxLease(t *testing.T) {
	t.Parallel()
	const maxLease = forgetLease
	f := fleet(t, 3)
	began := time.Now()
	l := careful(t, f, redlock.Open, maxLease)
	_, err := l.TryLock(t.Context(), "bridge")
	wantErr(t, err, quorum.ErrNotAcquired, quorum.ErrQuarantined)
	held := lockWithin(t, t.Context(), l, "bridge")
	if waited := time.Since(began); waited < maxLease-10*time.Millisecond {
		t.Errorf("granted after %v", waited)
	} else {
		t.Logf("granted after %v", waited)
	}
	unlock(t, held)
}

// Masters that restart with the keys of a lock, and without memory for new keys, keep the lock: it
// is renewed and unlocked as before.
func TestRestartOutOfMemoryKeepsTheLock(t *testing.T) {
	t.Parallel()
	inTime(t, 4*time.Second, func(lease time.Duration) bool {
		// With everysec a write waits for the fsync before it, and is lost with the process.
		f := fleet(t, 3, "--appendonly", "yes", "--appendfsync", "no", "--maxmemory", "6mb")
		admit(t, lease, f.Masters...)
		l := careful(t, f, redlock.Open, lease, quorum.WithLease(lease))
		held := lock(t, l, "bridge")
		grantedByAll(t, f.Masters, "bridge")
		onAll(t, f, "CONFIG", "SET", "maxmemory", "0")
		onAll(t, f, "SET", "ballast", strings.Repeat("x", 8<<20))
		var restarted sync.WaitGroup
		for _, m := range f.Masters[:2] {
			restarted.Go(func() {
				if err := errors.Join(m.Kill(), m.Start()); err != nil {
					t.Error(err)
				}
			})
		}
		restarted.Wait()
		if time.Until(held.Deadline()) < lease/2 { // the last renewal must come within the lease
			return false
		}
		// Time passing is the point.
		outlives(t, held, lease, 2)
		_, err := l.TryLock(short(t), "ferry")
		want(t, err, quorum.ErrNotAcquired, "OOM")
		unlock(t, held)
		noKeys(t, f.Masters, "bridge", "ferry")
		onAll(t, f, "DEL", "ballast")
		eventually(t, 2*lease+patience, func() bool {
			ferry, err := l.TryLock(t.Context(), "ferry")
			return err == nil && ferry.Unlock(t.Context()) == nil
		}, "granted again")
		return true
	})
}
