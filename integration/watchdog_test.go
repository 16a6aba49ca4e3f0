package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// admitted admits the masters, and opens a Locker with quarantine.
func admitted(t *testing.T, f *redistest.Fleet, by opener, opts ...quorum.Option) *quorum.Locker {
	t.Helper()
	for _, url := range f.URLs() {
		n, err := node.Open(url, node.WithTimeout(nodeTimeout))
		must(t, err)
		must(t, n.Admit(t.Context()))
		must(t, n.Close())
	}
	usual := quorum.WithNodeOptions(node.WithTimeout(nodeTimeout))
	locker, err := by(f.URLs(), append([]quorum.Option{usual}, opts...)...)
	must(t, err)
	t.Cleanup(func() { must(t, locker.Close()) })
	return locker
}

// flush makes a master forget everything but its admission, in one step.
func flush(t *testing.T, m *redistest.Master) {
	t.Helper()
	do(t, m, "EVAL", `local marker = redis.call('GET', KEYS[1])
		redis.call('FLUSHALL')
		return redis.call('SET', KEYS[1], marker)`, 1, scripts.MarkerKey)
}

func TestLockOutlivesItsLeaseAndMastersThatForget(t *testing.T) {
	t.Parallel()
	for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			const lease = 2400 * time.Millisecond
			locker := admitted(t, f, by, quorum.WithLease(lease))
			others := admitted(t, f, by, quorum.WithLease(lease))
			held := lock(t, locker, "job")
			began := time.Now()
			everywhere := func() bool {
				for _, hash := range keys(t, f.Masters, "job") {
					if len(hash) != 1 || hash[held.Owner()] != "1" {
						return false
					}
				}
				return true
			}
			for i := range 4 {
				pass(t, lease+lease/10) // more than a lease, four times
				if !held.Valid() || held.Context().Err() != nil {
					t.Fatalf("lost after %v: %v", time.Since(began), held.Err())
				}
				if !everywhere() {
					t.Errorf("after %v the masters say %v", time.Since(began), keys(t, f.Masters, "job"))
				}
				if i < len(f.Masters) && kind == "redlock" {
					flush(t, f.Masters[i])
					took(t, fmt.Sprintf("the repair of master %d", i), lease*9/10, func() {
						eventually(t, patience, everywhere, "the flushed master is repaired")
					})
				}
				_, err := others.TryLock(t.Context(), "job")
				wantErr(t, err, quorum.ErrNotAcquired)
			}
			if !held.Valid() || held.Level() != 1 {
				t.Errorf("after %v: valid %v, level %d, %v", time.Since(began), held.Valid(), held.Level(), held.Err())
			}
			unlock(t, held)
			noLocks(t, f.Masters)
			next := lock(t, others, "job")
			if next.Token() <= held.Token() {
				t.Errorf("token %d then %d: the counters must survive a flush through the renewals",
					held.Token(), next.Token())
			}
			unlock(t, next)
		})
	}
}

// The lock is lost when fewer nodes than the quorum size keep it. The holder learns that from its
// next renewal.
func TestTooManyMastersForget(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		by     opener
		forget int
	}{"redlock": {redlock.Open, 2}, "multilock": {multilock.Open, 1}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			locker := admitted(t, f, c.by, quorum.WithLease(time.Second))
			held := lock(t, locker, "job")
			// A renewal between two flushes repairs the first: then they come again.
			for deadline := time.Now().Add(patience); held.Context().Err() == nil; {
				if time.Now().After(deadline) {
					t.Fatal("its context goes on")
				}
				var flushes sync.WaitGroup
				for _, m := range f.Masters[:c.forget] {
					flushes.Go(func() { flush(t, m) })
				}
				flushes.Wait()
				select {
				case <-held.Context().Done():
				case <-time.After(2 * time.Second): // two leases, each with three renewals
				}
			}
			wantErr(t, context.Cause(held.Context()), quorum.ErrLost)
			wantErr(t, held.Unlock(t.Context()), quorum.ErrLost)
			noLocks(t, f.Masters)
		})
	}
}

// Not parallel: the context ends within 50 ms.
func TestFixedLeaseEndsByItself(t *testing.T) {
	f := fleet(t, 3)
	net := proxied(t, f)
	const lease = 2 * time.Second
	locker := open(t, net, redlock.Open, quorum.WithFixedLease(lease))
	w := stopwatch(t)
	held := lock(t, locker, "job")
	eventually(t, patience, func() bool { return len(leftOver(t, f.Masters, "job")) == 3 },
		"the lock stands on every master")
	renewals := net.saw(sha(t, "renew"))
	// No packet gets through from here on: the context ends, and the keys expire, without one.
	net.each(func(p *proxy) { p.set(requests, weather{dropped: true}) })
	select {
	case <-held.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lease is over and the context goes on")
	}
	if after, stalled := w.Read(); after < lease*9/10 || after > poll.AtMost(lease+50*time.Millisecond, stalled) {
		t.Errorf("the context ended %v after the request for a lease of %v; the machine stood still for %v", after, lease, stalled)
	}
	wantErr(t, context.Cause(held.Context()), quorum.ErrLost)
	wantErr(t, held.Err(), quorum.ErrLost)
	if held.Valid() {
		t.Error("valid after its lease")
	}
	took(t, "the expiry of the keys", lease/2, func() { noKeys(t, f.Masters, "job") })
	if n := net.saw(sha(t, "renew")) - renewals; n != 0 {
		t.Errorf("%d renewals of a fixed lease", n)
	}
	wantErr(t, held.Unlock(t.Context()), quorum.ErrLost)
	net.each((*proxy).heal)
	noLocks(t, f.Masters)
}

// Many locks are unlocked around the moments when their renewals are due. No master gets a renewal
// after the owner's release.
func TestNoRenewalAfterUnlock(t *testing.T) {
	f := fleet(t, 3)
	const lease, locks = 4 * time.Second, 400
	locker := open(t, f, redlock.Open, quorum.WithLease(lease))
	logs := make([]func() []string, len(f.Masters))
	for i, m := range f.Masters {
		logs[i] = monitor(t, m)
	}
	var working sync.WaitGroup
	for i := range locks {
		working.Go(func() {
			held, err := locker.Lock(t.Context(), fmt.Sprintf("job %d", i))
			if err != nil {
				t.Errorf("lock: %v", err)
				return
			}
			// Renewals are due one third and two thirds of a lease after the request.
			due := time.Duration(1+i%2) * lease / 3
			pass(t, due-20*time.Millisecond+rand.N(25*time.Millisecond))
			if err := held.Unlock(context.Background()); err != nil {
				t.Errorf("unlock: %v", err)
			}
		})
	}
	working.Wait()
	pass(t, lease) // renewals that were still due would arrive now

	hash := func(script string) string { called := sha(t, script); return called[len(called)-40:] }
	renew, release, releases := hash("renew"), hash("release"), hash("releases")
	for i, log := range logs {
		released := map[string]bool{}
		renewals := 0
		for _, line := range log() {
			words := strings.Split(line, `" "`)
			if len(words) > 2 && words[1] == releases { // of as many names, then an owner and a channel for each
				n, err := strconv.Atoi(words[2])
				must(t, err)
				for owner := 3 + n; owner < len(words); owner += 2 {
					released[words[owner]] = true
				}
			}
			for _, word := range words[1:] {
				owner, isOwner := strings.CutPrefix(word, "quorumlock:released:")
				switch {
				case !strings.Contains(line, release) && !strings.Contains(line, renew):
				case isOwner && words[1] == release:
					released[owner] = true
				case words[1] == renew && released[strings.Trim(word, `"`)]:
					t.Errorf("master %d: renewal after the release of %s: %.200s", i, word, line)
				}
			}
			if strings.Contains(line, renew) {
				renewals += strings.Count(line, "job ") / 2
			}
		}
		t.Logf("master %d: %d releases, %d renewals before them", i, len(released), renewals)
		if len(released) < locks || renewals < locks/4 {
			t.Errorf("master %d: %d releases, want %d; %d renewals, want many: the test shows nothing",
				i, len(released), locks, renewals)
		}
	}
	noLocks(t, f.Masters)
}

// monitor records every command that a master runs for a client, in order. The function that it
// returns ends the recording, and returns it.
func monitor(t *testing.T, m *redistest.Master) (log func() []string) {
	t.Helper()
	c, err := redis.Dial("tcp", m.Addr(), redis.DialConnectTimeout(patience))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = c.Do("MONITOR")
	must(t, err)
	const last = "nothing comes after this"
	lines := make(chan []string, 1)
	go func() {
		var all []string
		for {
			line, err := redis.String(c.Receive())
			if err != nil || strings.Contains(line, last) {
				lines <- all
				return
			}
			if !strings.Contains(line, " lua] ") {
				all = append(all, line)
			}
		}
	}()
	return func() []string {
		do(t, m, "ECHO", last)
		return <-lines
	}
}

const (
	holderURLs  = "QUORUMLOCK_TEST_URLS"
	holderLease = 3 * time.Second
)

// holderProcess holds a lock until it reads a byte. Then it watches the clock, and prints the
// lock's state as soon as it runs again after a pause. With GOMAXPROCS=1 no timer or goroutine of
// the process runs before that.
func holderProcess() int {
	fail := func(err error) int { fmt.Println("failed:", err); return 1 }
	locker, err := redlock.Open(strings.Split(os.Getenv(holderURLs), " "), quorum.WithLease(holderLease),
		quorum.WithNodeOptions(node.WithTimeout(nodeTimeout), node.WithoutQuarantine()))
	if err != nil {
		return fail(err)
	}
	defer locker.Close()
	held, err := locker.Lock(context.Background(), "job")
	if err != nil {
		return fail(err)
	}
	fmt.Println("held", held.Token())
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
		return fail(err)
	}
	began := time.Now() // taken before the next line is printed: the pause may follow at once
	last := began
	fmt.Println("watching")
	for {
		now := time.Now()
		if now.Sub(last) > holderLease {
			break
		}
		if now.Sub(began) > patience {
			return fail(errors.New("this process was not stopped"))
		}
		last = now
	}
	resumed := poll.Start()
	defer resumed.Stop()
	valid, level := held.Valid(), held.Level()
	select {
	case <-held.Context().Done():
	case <-time.After(patience):
	}
	ended, stalled := resumed.Read()
	lost := errors.Is(context.Cause(held.Context()), quorum.ErrLost)
	unlockSaysLost := errors.Is(held.Unlock(context.Background()), quorum.ErrLost)
	fmt.Println("resumed", valid, level, ended.Microseconds(), stalled.Microseconds(), lost, unlockSaysLost)
	return 0
}
