package quorum

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// heldHold returns an attempt that two of three nodes have granted and the third has not answered,
// with its hold in phase held, and the clock, which stands still.
func heldHold(t *testing.T, lease time.Duration) (*attempt, *clock.Fake) {
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
	c.secondWaves = schedule.New(c.clock, c.askSecondWaves)
	c.roster.Resolve()
	set := defaults()
	set.lease, set.drift = lease, 0
	a := newAttempt(c, &set, []string{"a"}, nil)
	h := a.hold
	h.first.begin(t.Context())
	h.requestedAt = fake.Now()
	h.renewedAt = h.requestedAt
	for i := range a.answers {
		a.answers[i].outcome = unanswered
	}
	a.answers[0].Done(granting("one", 7))
	a.answers[1].Done(granting("two", 7))
	h.refreshLocked()
	h.phase = held
	return a, fake
}

// renewed is the result of a renewal of one lock.
func renewed(said scripts.Renewed, runID string) pipeline.Result {
	return pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{said}}, RunID: runID}
}

// granting is the result of a granted acquire.
func granting(runID string, token uint64) pipeline.Result {
	reply := scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Granted, Token: token}}
	return pipeline.Result{Reply: reply, RunID: runID, Sent: true}
}

// A grant whose answer comes late counts from its own request, not from a renewal that was sent
// since.
func TestLateGrantCountsFromItsOwnRequest(t *testing.T) {
	const lease = time.Second
	a, fake := heldHold(t, lease)
	h := a.hold
	fake.Advance(lease / 2)
	h.renewedAt = fake.Now() // a renewal
	h.votes[0].renewedLocked(renewed(scripts.Kept, "one"), 0, clock.Deadline(h.renewedAt, lease, 0))
	a.answers[2].Done(granting("three", 7))
	if want := clock.Deadline(h.requestedAt, lease, 0); h.deadline != want {
		t.Errorf("the deadline is %v after that of the grants, which two of three nodes keep no longer",
			h.deadline.Sub(want))
	}
}

// No answer after the deadline moves it: the handle is dead.
func TestDeadHandleStaysDead(t *testing.T) {
	const lease = time.Second
	a, fake := heldHold(t, lease)
	h := a.hold
	deadline := h.deadline
	fake.Advance(lease)
	later := clock.Deadline(fake.Now(), lease, 0)
	h.votes[0].renewedLocked(renewed(scripts.Kept, "one"), 0, later)
	h.votes[1].renewedLocked(renewed(scripts.Kept, "two"), 0, later)
	a.answers[2].Done(granting("three", 7))
	h.votes[2].renewedLocked(renewed(scripts.Gone, "three"), 0, later)
	if h.deadline != deadline || h.validLocked() {
		t.Errorf("the deadline moved by %v, valid: %v", h.deadline.Sub(deadline), h.validLocked())
	}
}

// A reply may come late: a confirmation counts from the instant of its request.
func TestConfirmationsCountFromTheirOwnRequest(t *testing.T) {
	const lease = time.Second
	// ask sends a request to two nodes now, and returns the function that delivers their answers.
	for what, ask := range map[string]func(h *hold, now clock.Instant) (answer func()){
		"renewal": func(h *hold, now clock.Instant) func() {
			r := newRenewalRound(h.core, now)
			for i := range 2 {
				r.batches = append(r.batches, &renewalBatch{core: h.core, sent: now, votes: []*vote{&h.votes[i]},
					locks: []scripts.Renewal{{Names: h.names, Owner: h.owner}}})
			}
			return func() {
				for i, b := range r.batches {
					b.Done(renewed(scripts.Kept, h.votes[i].runID))
				}
			}
		},
		"repair": func(h *hold, now clock.Instant) func() {
			return func() {
				for i := range 2 {
					(&repairReply{vote: &h.votes[i], until: clock.Deadline(now, lease, 0)}).Done(granting(h.votes[i].runID, 7))
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			a, fake := heldHold(t, lease)
			h := a.hold
			fake.Advance(lease / 2)
			want := clock.Deadline(fake.Now(), lease, 0)
			answer := ask(h, fake.Now())
			fake.Advance(lease / 4)
			answer()
			if h.deadline != want {
				t.Errorf("the deadline is %v after that of the requests", h.deadline.Sub(want))
			}
		})
	}
}

// Extend counts from its own request, however late the answers are.
func TestExtendCountsFromItsOwnRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		defer c.unlock(held)
		time.Sleep(5 * time.Second)
		for i := range c.masters {
			c.before(i, func() { time.Sleep(100 * time.Millisecond) })
		}
		sent := l.core.clock.Now()
		if err := held.Extend(t.Context(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		held.hold.mu.Lock()
		defer held.hold.mu.Unlock()
		if want := clock.Deadline(sent, 30*time.Second, held.hold.set.drift); held.hold.deadline != want {
			t.Errorf("the deadline is %v after that of the request", held.hold.deadline.Sub(want))
		}
	})
}

// A node that refuses a repair because another owner has the lock does not keep the grant any more,
// however long it had confirmed it before.
func TestRefusedAgainIsKeptNoLonger(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	h := a.hold
	v := &h.votes[0]
	reply := scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Held, Wait: time.Second}}
	said := v.regrantedLocked(pipeline.Result{Reply: reply, RunID: "one", Sent: true}, h.deadline)
	if said != refused || v.until != clock.Never || h.validLocked() {
		t.Errorf("outcome %d, kept until %v, valid %v: one of the two nodes has another owner",
			said, v.until, h.validLocked())
	}
}

// Two grants of one process are one vote.
func TestSecondGrantOfAProcessIsNone(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	h := a.hold
	h.phase = attempting
	n := &a.answers[2]
	n.Done(granting("two", 7))
	if n.outcome != unknown || n.vote.until != clock.Never {
		t.Errorf("outcome %d, kept until %v", n.outcome, n.vote.until)
	}
}

// A lock that was unlocked meanwhile is not renewed alone after the node refused its batch.
func TestARefusedBatchIsNotRenewedAfterUnlock(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	b2, _ := heldHold(t, time.Second)
	kept, gone := a.hold, b2.hold
	gone.phase = released
	b := &renewalBatch{
		core: kept.core, pipe: kept.core.nodes[0].Pipe("a"),
		votes: []*vote{&kept.votes[0], &gone.votes[0]}, locks: make([]scripts.Renewal, 2),
	}
	for i, v := range b.votes {
		v.busy = true
		b.locks[i] = scripts.Renewal{Names: v.hold.names, Owner: v.hold.owner, Lease: v.hold.set.leaseMillis}
	}
	b.Done(pipeline.Result{Err: &node.Error{Err: redis.Error("NOPERM no")}, Sent: true, RefusesKeys: true})
	for _, v := range b.votes {
		v.hold.mu.Lock()
		if asked := v.alone; asked != (v.hold == kept) || v.busy && !asked {
			t.Errorf("phase %d: renewed alone: %v, awaited: %v", v.hold.phase, asked, v.busy)
		}
		v.hold.mu.Unlock()
	}
}

// A server that refuses every write refuses each lock of a batch alone, too: none is asked again
// before the next renewals.
func TestABatchThatIsRefusedForAllKeysIsNotRenewedAlone(t *testing.T) {
	first, _ := heldHold(t, time.Second)
	second, _ := heldHold(t, time.Second)
	b := &renewalBatch{core: first.hold.core, pipe: first.hold.core.nodes[0].Pipe("a")}
	for _, h := range []*hold{first.hold, second.hold} {
		v := &h.votes[0]
		v.busy = true
		b.votes = append(b.votes, v)
		b.locks = append(b.locks, scripts.Renewal{Names: h.names, Owner: h.owner, Lease: h.set.leaseMillis})
	}
	refusal := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	b.Done(pipeline.Result{Err: &node.Error{Err: refusal}, Sent: true, RefusesKeys: redisconn.RefusesKeys(refusal)})
	for i, v := range b.votes {
		v.hold.mu.Lock()
		if v.alone || v.busy || !errors.Is(v.err, refusal) {
			t.Errorf("lock %d: renewed alone: %v, awaited: %v, error: %v", i, v.alone, v.busy, v.err)
		}
		v.hold.mu.Unlock()
	}
}

// A node in quarantine keeps the grant no longer, and is not asked again before the next renewals: it would say the same.
func TestQuarantinedNodeIsAskedWithTheNextRenewals(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	h := a.hold
	v := &h.votes[0]
	said := v.regrantedLocked(pipeline.Result{Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Quarantined, Wait: time.Second}}, RunID: "one", Sent: true}, h.deadline)
	if said != quarantined || v.until != clock.Never || h.validLocked() || v.forgot {
		t.Errorf("answer %d, believed until %v, valid %v, asked again at once %v", said, v.until, h.validLocked(), v.forgot)
	}
}
