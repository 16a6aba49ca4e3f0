package quorum

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// heldHold returns an attempt that two of three nodes have granted and the third has not answered,
// and that has become a lock, and the clock, which stands still.
func heldHold(t *testing.T, lasts time.Duration) (*attempt, *clock.Fake) {
	t.Helper()
	a, fake := asking(t, lasts)
	a.requests[0].Done(granting("one", 7))
	a.requests[1].Done(granting("two", 7))
	if !a.hold.holdUnlessLate() {
		t.Fatal("it is not held")
	}
	return a, fake
}

// asking returns an attempt that has asked three nodes, which have not answered.
func asking(t *testing.T, lasts time.Duration) (*attempt, *clock.Fake) {
	t.Helper()
	fake := clock.NewFake()
	fake.Advance(time.Hour)
	c := &core{nodes: make([]*node.Node, 3), need: 2, clock: fake, uuid: newUUID(), closed: make(chan struct{}),
		rtt: waiting.NewRTT(3)}
	for i := range c.nodes {
		n, err := node.Open("redis://127.0.0.1:1", node.WithName(string(rune('a'+i)))) // never used
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		c.nodes[i] = n
	}
	c.schedule, c.roster = schedule.New(c.clock, c.renewDue), c.newRoster(true, false)
	c.roster.Resolve()
	set := defaults()
	set.lease, set.drift = lasts, 0
	set.terms = lease.Terms{Need: 2, Lease: lasts}
	a := newAttempt(c, &set, []string{"a"}, nil)
	h := a.hold
	h.first.makeContext(t.Context())
	for _, ask := range h.lease.Begin(fake.Now(), lease.Plan{}, nil) {
		a.requests[ask.Master].command = ask
	}
	return a, fake
}

// granting is the result of a granted acquire.
func granting(runID string, token uint64) pipeline.Result {
	reply := scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Granted, Token: token}}
	return pipeline.Result{Reply: reply, RunID: runID, Sent: true}
}

// A lock that was unlocked meanwhile is not renewed alone after the node refused its batch.
func TestARefusedBatchIsNotRenewedAfterUnlock(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	b2, _ := heldHold(t, time.Second)
	kept, gone := a.hold, b2.hold
	gone.lease.Unlock(gone.core.clock.Now(), nil)
	b := &renewalBatch{
		core: kept.core, pipe: inside.Of(kept.core.nodes[0]).Pipe("a"),
		members: []*member{&kept.members[0], &gone.members[0]}, locks: make([]scripts.Renewal, 2),
	}
	for i, m := range b.members {
		b.commands = append(b.commands, lease.Command{Do: lease.Renew})
		b.locks[i] = m.hold.renewal(m.hold.set.leaseMillis)
	}
	b.Done(pipeline.Result{Err: &node.Error{Err: redis.Error("NOPERM no")}, Sent: true, RefusesKeys: true})
	for _, m := range b.members {
		m.hold.mu.Lock()
		if m.alone != (m.hold == kept) {
			t.Errorf("phase %d: renewed alone: %v", m.hold.lease.Phase(), m.alone)
		}
		m.hold.mu.Unlock()
	}
}

// A server that refuses every write refuses each lock of a batch alone, too: none is asked again
// before the next renewals.
func TestABatchThatIsRefusedForAllKeysIsNotRenewedAlone(t *testing.T) {
	first, _ := heldHold(t, time.Second)
	second, _ := heldHold(t, time.Second)
	b := &renewalBatch{core: first.hold.core, pipe: inside.Of(first.hold.core.nodes[0]).Pipe("a")}
	for _, h := range []*hold{first.hold, second.hold} {
		b.members, b.commands = append(b.members, &h.members[0]), append(b.commands, lease.Command{Do: lease.Renew})
		b.locks = append(b.locks, h.renewal(h.set.leaseMillis))
	}
	refusal := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	b.Done(pipeline.Result{Err: &node.Error{Err: refusal}, Sent: true, RefusesKeys: redisconn.RefusesKeys(refusal)})
	for i, m := range b.members {
		m.hold.mu.Lock()
		if m.alone || !errors.Is(m.err, refusal) {
			t.Errorf("lock %d: renewed alone: %v, error: %v", i, m.alone, m.err)
		}
		m.hold.mu.Unlock()
	}
}
