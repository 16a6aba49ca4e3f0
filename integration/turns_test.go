package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// stormLasts is for how long masters fail at least.
const stormLasts = 3 * time.Second

// Processes that do nothing under a lock pass it on while a minority of the masters fails: one holder at a time. When
// all masters answer again they take turns as before, and leave no key and no subscription behind.
func TestTurnsInAStorm(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	net := proxied(t, f)
	var over atomic.Bool
	var working sync.WaitGroup
	var acquired [3]atomic.Int32
	var holders atomic.Int32
	for i := range acquired {
		locker := open(t, net, redlock.Open, brief, quorum.WithLease(stormLease))
		working.Go(func() {
			for !over.Load() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				held, err := locker.Lock(ctx, "a")
				if wantAtMost(t, err, quorum.ErrNotAcquired); err == nil {
					if holders.Add(1) > 1 {
						t.Error("two hold the lock")
					}
					acquired[i].Add(1)
					holders.Add(-1)
					wantAtMost(t, held.Unlock(ctx), quorum.ErrUnavailable)
				}
				cancel()
			}
		})
	}
	for began := time.Now(); time.Since(began) < stormLasts; {
		i := rand.IntN(len(f.Masters))
		blow(t, f.Masters[i], net.proxies[i])
	}
	before := [3]int32{}
	for i := range acquired {
		before[i] = acquired[i].Load()
	}
	for more := int32(10); more <= 100; more += 10 { // a lock that is left to its lease outlasts patience
		eventually(t, patience, func() bool {
			for i := range acquired {
				if acquired[i].Load() < before[i]+more {
					return false
				}
			}
			return true
		}, fmt.Sprint("each acquires it ", more, " times more"))
	}
	over.Store(true)
	working.Wait()
	t.Logf("up to the end of the storm: %v acquisitions", before)
	noLocks(t, f.Masters)
	eventually(t, patience, func() bool { return subscriptions(t, f.Masters, "a") == 0 }, "no subscription is left")
}

// stormLease is a lease that no lock in a storm outlives, nor a test's patience.
const stormLease = 30 * time.Second

// blow makes a master fail for a moment.
func blow(t *testing.T, m *redistest.Master, p *proxy) {
	t.Helper()
	switch rand.IntN(5) {
	case 0:
		must(t, m.Kill())
		defer func() { must(t, m.Start()) }()
	case 1:
		must(t, m.Freeze())
		defer func() { must(t, m.Thaw()) }()
	case 2:
		p.hangUp()
		defer p.cut()
	case 3:
		p.set(replies, weather{dropped: true})
		defer p.heal()
	case 4:
		do(t, m, "CONFIG", "SET", "min-replicas-to-write", "1")
		defer func() { do(t, m, "CONFIG", "SET", "min-replicas-to-write", "0") }()
	}
	pass(t, time.Duration(rand.IntN(200))*time.Millisecond)
}

// wantAtMost fails the test if an error is not the one, or says that a lock was lost.
func wantAtMost(t *testing.T, err, one error) {
	if err != nil && (errors.Is(err, quorum.ErrLost) || !errors.Is(err, one)) {
		t.Error(err)
	}
}
