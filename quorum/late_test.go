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

// refusedBatch is two locks whose renewals a node has refused together. The second was unlocked meanwhile, if so asked.
func refusedBatch(t *testing.T, refusal redis.Error, unlocked, refusesKeys bool) (first, second *member) {
	one, _ := heldHold(t, time.Second)
	two, _ := heldHold(t, time.Second)
	b := &renewalBatch{core: one.hold.core, pipe: inside.Of(one.hold.core.nodes[0]).Pipe("a")}
	for _, h := range []*hold{one.hold, two.hold} {
		b.members, b.commands = append(b.members, &h.members[0]), append(b.commands, lease.Command{Do: lease.Renew})
		b.locks = append(b.locks, h.renewal(h.set.leaseMillis))
	}
	if unlocked {
		two.hold.lease.Unlock(one.hold.core.clock.Now(), nil)
	}
	b.Done(pipeline.Result{Err: &node.Error{Err: refusal}, Sent: true, RefusesKeys: refusesKeys})
	one.hold.mu.Lock() // the nodes are never asked: nothing else takes them
	two.hold.mu.Lock()
	t.Cleanup(func() { one.hold.mu.Unlock(); two.hold.mu.Unlock() })
	return b.members[0], b.members[1]
}

// A lock that was unlocked meanwhile is not renewed alone after the node refused its batch.
func TestARefusedBatchIsNotRenewedAfterUnlock(t *testing.T) {
	if kept, gone := refusedBatch(t, "NOPERM no", true, true); !kept.alone || gone.alone {
		t.Errorf("renewed alone: %v, and the one that was unlocked: %v", kept.alone, gone.alone)
	}
}

// A server that refuses every write refuses each lock of a batch alone, too: none is asked again
// before the next renewals.
func TestABatchThatIsRefusedForAllKeysIsNotRenewedAlone(t *testing.T) {
	refusal := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	first, second := refusedBatch(t, refusal, false, redisconn.RefusesKeys(refusal))
	for _, m := range []*member{first, second} {
		if m.alone || !errors.Is(m.err, refusal) {
			t.Errorf("renewed alone: %v, error: %v", m.alone, m.err)
		}
	}
}
