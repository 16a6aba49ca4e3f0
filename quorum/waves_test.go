package quorum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// The probe node is slow, so the others are asked meanwhile, and one of them has granted another
// owner. The probe node's grant counts from its own request, not from theirs.
func TestProbeNodeThatIsSlowCountsFromItsOwnRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		probed := h.probeNode()
		rival := scripts.Acquire(scripts.AcquireArgs{Names: h.names, Owner: scripts.OwnerOf("rival:1"), Level: 1,
			Lease: h.set.leaseMillis, List: l.core.members.list.Load(), Seed: 1})
		if r := l.core.nodes[(probed+1)%3].Pipe("a").Do(t.Context(), rival); r.Err != nil {
			t.Fatal(r.Err)
		}

		slow := make(chan struct{})
		c.before(probed, func() { <-slow })
		late := time.AfterFunc(time.Second/2, func() { close(slow) })
		defer late.Stop()
		began := l.core.clock.Now()
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if most := clock.Deadline(began, l.set.lease, l.set.drift); most.Before(lock.hold.deadline) {
			t.Errorf("the deadline is %v after that of the request to the probe node", lock.hold.deadline.Sub(most))
		}
		c.unlock(lock)
	})
}

// A probe node that does not answer delays the attempt by no more than two steps.
func TestProbeNodeThatIsFrozen(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		frozen := make(chan struct{})
		defer close(frozen)
		c.before(h.probeNode(), func() { <-frozen })
		began := time.Now()
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if took := time.Since(began); took > 2*maxStep {
			t.Errorf("it waited for the probe node for %v", took)
		}
		c.unlock(lock)
	})
}

// Every node is asked once: the probe node is not asked again with the others when it has not answered.
func TestNoNodeIsAskedTwice(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		calls := c.calls.Load()
		c.before(h.probeNode(), func() { time.Sleep(time.Second / 2) })
		lock, r := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.ProbeFirst)
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
		h := newAttempt(l.core, l.set, []string{"a"}, nil).hold
		frozen := make(chan struct{})
		c.before(h.probeNode(), func() { <-frozen })
		calls := c.calls.Load()
		ctx, cancel := context.WithTimeout(t.Context(), minStep)
		defer cancel()
		if lock, _ := l.core.attempt(ctx, l.set, []string{"a"}, waiting.ProbeFirst); lock != nil {
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
