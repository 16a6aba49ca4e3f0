package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// A vote that arrives after its attempt failed or was given up is released.
func TestLostRacesLeaveNothing(t *testing.T) {
	for how, patience := range map[string]func() time.Duration{
		"waited for":     func() time.Duration { return soon },
		"given up early": func() time.Duration { return rand.N(40 * time.Millisecond) },
	} {
		t.Run(how, func(t *testing.T) {
			f := fleet(t, 3)
			net := proxied(t, f)
			const contenders, jobs, races = 4, 24, 1000
			var lockers []*quorum.Locker
			for range contenders {
				lockers = append(lockers, open(t, net, redlock.Open))
			}
			for _, p := range net.proxies[:2] {
				p.set(requests, weather{jitter: 20 * time.Millisecond})
			}
			var lost, won atomic.Int64
			var working sync.WaitGroup
			for job := range jobs {
				working.Go(func() {
					name := fmt.Sprintf("job %d", job)
					for lost.Load() < races {
						var race sync.WaitGroup
						var holders atomic.Int64
						for _, locker := range lockers {
							race.Go(func() {
								ctx, cancel := context.WithTimeout(t.Context(), patience())
								defer cancel()
								held, err := locker.TryLock(ctx, name)
								if err != nil {
									lost.Add(1)
									return
								}
								won.Add(1)
								if holders.Add(1) > 1 {
									t.Errorf("%s: two hold it", name)
								}
								holders.Add(-1)
								held.Unlock(context.Background())
							})
						}
						race.Wait()
					}
				})
			}
			working.Wait()
			over := time.Now()
			noLocks(t, f.Masters)
			t.Logf("%d races lost, %d won; nothing was left %v after the last", lost.Load(), won.Load(),
				(time.Since(over) - 100*time.Millisecond).Round(time.Millisecond))
			if how == "waited for" && won.Load() == 0 {
				t.Error("no attempt ever won")
			}
		})
	}
}

// A request for a grant may arrive over a dead connection, after its owner's release over the next
// one.
func TestAcquireThatArrivesAfterItsRelease(t *testing.T) {
	t.Parallel()
	const late = 4 * time.Second // the release comes first, also on a busy machine
	const timesOut = "it timed out"
	for how, run := range map[string]func(*testing.T, *quorum.Locker, *network){
		"its copy was granted and unlocked": func(t *testing.T, locker *quorum.Locker, net *network) {
			done := make(chan error, 1)
			go func() {
				held, err := locker.TryLock(t.Context(), "job")
				if err == nil {
					err = held.Unlock(t.Context())
				}
				done <- err
			}()
			awaitCall(t, net, "acquire")
			net.each((*proxy).heal)
			net.each((*proxy).hangUp)
			if err := <-done; err != nil {
				t.Errorf("the connections broke once, and: %v", err)
			}
		},
		"it was cancelled": func(t *testing.T, locker *quorum.Locker, net *network) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- notHeld(locker.TryLock(ctx, "job")) }()
			awaitCall(t, net, "acquire")
			cancel()
			wantErr(t, <-done, context.Canceled)
			net.each((*proxy).heal)
			net.each((*proxy).hangUp)
		},
		timesOut: func(t *testing.T, locker *quorum.Locker, net *network) {
			done := make(chan error, 1)
			go func() { done <- notHeld(locker.TryLock(t.Context(), "job")) }()
			awaitCall(t, net, "acquire")
			net.each((*proxy).heal)
			wantErr(t, <-done, quorum.ErrNotAcquired, quorum.ErrUnavailable)
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			net := proxied(t, f)
			timeout := nodeTimeout
			if how == timesOut {
				timeout = briefTimeout
			}
			locker := open(t, net, redlock.Open, quorum.WithNodeOptions(node.WithTimeout(timeout)))
			net.each(func(p *proxy) { p.set(requests, weather{latency: late}) })
			run(t, locker, net)
			for i, p := range net.proxies {
				if p.arrived() {
					t.Errorf("proxy %d: the request arrived before its release: the test shows nothing", i)
				}
			}
			for _, p := range net.proxies {
				eventually(t, patience, p.arrived, "the late request arrives")
			}
			noLocks(t, f.Masters)
			unlock(t, lock(t, locker, "job"))
		})
	}
}

// awaitCall waits until a call of the script was sent to every master.
func awaitCall(t *testing.T, net *network, script string) {
	t.Helper()
	for _, p := range net.proxies {
		eventually(t, patience, func() bool { return p.saw(sha(t, script)) > 0 }, script+" is sent")
	}
}
