package quorum

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// The node at the door is slow, the others are asked meanwhile, and one of them has voted for a rival. The door's grant counts from
// its own request, not from theirs.
func TestDoorThatIsSlowCountsFromItsOwnRequest(t *testing.T) {
	inTown(t, func(t *testing.T, c *town) {
		l := c.process()
		h := newHold(l, scriptNames([]string{"a"}))
		h.first = Lock{hold: h, names: []string{"a"}}
		door := h.door()
		rival := scripts.Acquire(scripts.AcquireArgs{Names: h.names, Owner: scripts.OwnerOf("rival"), Level: 1,
			Lease: h.set.leaseMillis, MaxLease: l.core.maxLeaseMillis, Seed: 1})
		if r := l.core.nodes[(door+1)%3].Pipe("a").Do(t.Context(), rival); r.Err != nil {
			t.Fatal(r.Err)
		}

		slow := make(chan struct{})
		c.before(door, func() { <-slow })
		late := time.AfterFunc(time.Second/2, func() { close(slow) })
		defer late.Stop()
		began := l.core.clock.Now()
		lock, r := l.attempt(t.Context(), []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if most := clock.Deadline(began, l.set.lease, l.set.drift); most.Before(lock.hold.until) {
			t.Errorf("it believes in the door for %v longer than it asked for", lock.hold.until.Sub(most))
		}
		c.unlock(lock)
	})
}

// A node at the door that does not answer keeps nobody out.
func TestDoorThatIsFrozen(t *testing.T) {
	inTown(t, func(t *testing.T, c *town) {
		l := c.process()
		h := newHold(l, scriptNames([]string{"a"}))
		h.first = Lock{hold: h, names: []string{"a"}}
		frozen := make(chan struct{})
		defer close(frozen)
		c.before(h.door(), func() { <-frozen })
		began := time.Now()
		lock, r := l.attempt(t.Context(), []string{"a"}, waiting.ProbeFirst)
		if lock == nil {
			t.Fatal(r.err)
		}
		if took := time.Since(began); took > 2*maxStep {
			t.Errorf("it waited at the door for %v", took)
		}
		c.unlock(lock)
	})
}
