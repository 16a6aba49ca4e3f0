package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// The probe node is slow, so the others are asked meanwhile, and one of them has granted another
// owner. The probe node's grant counts from its own request, not from theirs.
func TestProbeNodeThatIsSlowCountsFromItsOwnRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		probed := firstNode(l, "a")
		rival := scripts.Acquire(scripts.AcquireArgs{Names: h.names, Owner: scripts.OwnerOf("rival:1"), Level: 1,
			Lease: h.set.leaseMillis, List: l.core.roster.List(), Seed: 1})
		if r := inside.Of(l.core.nodes[(probed+1)%3]).Pipe("a").Do(t.Context(), rival); r.Err != nil {
			t.Fatal(r.Err)
		}

		slow := make(chan struct{})
		c.before(probed, func() { <-slow })
		late := time.AfterFunc(time.Second/2, func() { close(slow) })
		defer late.Stop()
		began := l.core.clock.Now()
		lock, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if most := clock.Deadline(began, l.set.lease, l.set.drift); most.Before(lock.hold.lease.Deadline()) {
			t.Errorf("the deadline is %v after that of the request to the probe node", lock.hold.lease.Deadline().Sub(most))
		}
		c.unlock(lock)
	})
}

// A probe node that does not answer delays the attempt by no more than two steps.
func TestProbeNodeThatIsFrozen(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		frozen := make(chan struct{})
		defer close(frozen)
		c.before(firstNode(l, "a"), func() { <-frozen })
		began := time.Now()
		lock, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if took := time.Since(began); took > 2*waiting.MaxStep {
			t.Errorf("it waited for the probe node for %v", took)
		}
		c.unlock(lock)
	})
}

// Every node is asked once: a probe node that has not answered is not asked again with the others.
func TestNoNodeIsAskedTwice(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		calls := c.calls.Load()
		c.before(firstNode(l, "a"), func() { time.Sleep(time.Second / 2) })
		lock, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if asked := c.calls.Load() - calls; asked != 3 {
			t.Errorf("%d calls of 3 nodes", asked)
		}
		c.unlock(lock)
	})
}

// An attempt whose context ends while it probes asks no other node.
func TestNoOtherNodeIsAskedOnceTheContextHasEnded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		frozen := make(chan struct{})
		c.before(firstNode(l, "a"), func() { <-frozen })
		calls := c.calls.Load()
		ctx, cancel := context.WithTimeout(t.Context(), waiting.MinStep)
		defer cancel()
		if lock, _ := l.core.attempt(ctx, l.set, target{names: []string{"a"}}, waiting.ProbeFirst); lock != nil {
			t.Error("it has the lock")
		}
		synctest.Wait()
		if asked := c.calls.Load() - calls; asked != 1 {
			t.Errorf("%d nodes were asked, want the probe node alone", asked)
		}
		close(frozen)
		synctest.Wait()
		c.wantNoOwners(l)
	})
}

// If the probe node fails, the next one replaces it. A refusal by that one ends the attempt.
func TestProbeNodeThatFailsIsReplaced(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		c.rivalHas(l, wave[1])
		c.notAsked(third)
		c.masters[wave[0]].Crash(fakeredis.Everything)
		_, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if r == nil || !r.Held || r.Listeners != 0 {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		c.before(third, func() {})
	})
}

// A probe node in quarantine is replaced, too: by the next node alone.
func TestProbeNodeInQuarantineIsReplaced(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.quarantined()
		l := c.process()
		c.lets(l, "a")
		wave, third := firstWave(l)
		c.masters[wave[0]].Crash(fakeredis.Everything)
		c.masters[wave[0]].Start()
		time.Sleep(5 * time.Second) // until probes find that the node answers again
		c.unlock(c.lock(l, "a"))    // marks it
		synctest.Wait()
		c.rivalHas(l, wave[1])
		c.notAsked(third)
		_, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if r == nil || r.of[lease.Quarantined] != 1 || r.of[lease.Refused] != 1 {
			t.Errorf("%+v", r)
		}
		c.before(third, func() {})
	})
}

// If no node takes the second wave, the attempt ends. It does not wait for the frozen node.
func TestASecondWaveThatFailsAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		frozen := make(chan struct{})
		c.before(wave[0], func() { <-frozen })
		time.AfterFunc(waiting.MinStep, func() {
			for _, i := range []int{wave[1], third} {
				c.masters[i].Crash(fakeredis.Everything)
				inside.Of(l.core.nodes[i]).Pipe("a").Do(context.Background(), scripts.Look())
			}
		})
		began := time.Now()
		_, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if r == nil || !errors.Is(r.err, ErrUnavailable) {
			t.Fatalf("%+v", r)
		}
		if took := time.Since(began); took > 2*waiting.MinStep+grace {
			t.Errorf("it took %v", took)
		}
		close(frozen)
		synctest.Wait()
	})
}

// The order of a probe is the same for all processes, even if they find different nodes slow.
func TestASlowProbeNodeIsAskedFirst(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		wave, third := firstWave(l)
		c.rivalHas(l, wave[0])
		l.core.rtt.Observe(wave[0], time.Second)
		l.core.rtt.Observe(wave[1], time.Millisecond)
		l.core.rtt.Observe(third, time.Millisecond)
		calls := c.calls.Load()
		_, r := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.ProbeFirst)
		if r == nil || !r.Held {
			t.Fatalf("%+v", r)
		}
		if n := c.calls.Load() - calls; n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}
