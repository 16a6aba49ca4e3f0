package quorum

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// heldHold is a hold on two of three nodes, whose third has not answered, by a clock that stands at its beginning.
func heldHold(t *testing.T, lease time.Duration) (*hold, *clock.Fake) {
	t.Helper()
	fake := clock.NewFake()
	fake.Advance(time.Hour)
	c := &core{nodes: make([]*node.Node, 3), need: 2, clock: fake, uuid: newUUID(), closed: make(chan struct{})}
	for i := range c.nodes {
		n, err := node.Open("redis://127.0.0.1:1") // never used
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		c.nodes[i] = n
	}
	c.schedule = newSchedule(c)
	set := defaults()
	set.lease, set.drift = lease, 0
	h := newHold(&Locker{core: c, set: &set}, scriptNames([]string{"a"}))
	h.first = Lock{hold: h, names: []string{"a"}, level: 1}
	h.asked = fake.Now()
	h.begun = h.asked
	h.votes[0].Done(granting("one", 7))
	h.votes[1].Done(granting("two", 7))
	h.refreshLocked()
	h.phase = held
	return h, fake
}

func granting(runID string, token int64) node.Result {
	return node.Result{Value: token, RunID: runID, Sent: true}
}

// A grant that is heard of late counts from when it was asked for, not from a round of renewals that was sent since.
func TestLateGrantCountsFromItsOwnRequest(t *testing.T) {
	const lease = time.Second
	h, fake := heldHold(t, lease)
	fake.Advance(lease / 2)
	h.begun = fake.Now() // a round of renewals
	h.votes[0].renewedLocked(scripts.Kept, "one", clock.Deadline(h.begun, lease, 0))
	h.votes[2].Done(granting("three", 7))
	if want := clock.Deadline(h.asked, lease, 0); h.until != want {
		t.Errorf("the deadline is %v after that of the grants, which two of three nodes keep no longer", h.until.Sub(want))
	}
}

// Nothing that is heard after the deadline moves it: the handle is dead.
func TestDeadHandleStaysDead(t *testing.T) {
	const lease = time.Second
	h, fake := heldHold(t, lease)
	deadline := h.until
	fake.Advance(lease)
	later := clock.Deadline(fake.Now(), lease, 0)
	h.votes[0].renewedLocked(scripts.Kept, "one", later)
	h.votes[1].renewedLocked(scripts.Kept, "two", later)
	h.votes[2].Done(granting("three", 7))
	h.votes[2].renewedLocked(scripts.Gone, "three", later)
	if h.until != deadline || h.validLocked() {
		t.Errorf("the deadline moved by %v, valid: %v", h.until.Sub(deadline), h.validLocked())
	}
}
