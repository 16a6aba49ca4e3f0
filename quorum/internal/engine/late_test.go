package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// granting is the result of a granted acquire.
func granting(runID string, token uint64) pipeline.Result {
	reply := scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Granted, Token: token}}
	return pipeline.Result{Reply: reply, RunID: runID, Sent: true}
}

// refusedBatch is two locks whose renewals a node has refused together. The second was unlocked meanwhile, if so asked.
func refusedBatch(t *testing.T, refusal redis.Error, unlocked, refusesKeys bool) (first, second *member) {
	one, _ := heldHold(t, time.Second)
	two, _ := heldHold(t, time.Second)
	b := &renewalBatch{engine: one.hold.engine, pipe: inside.Of(one.hold.engine.Nodes[0]).Pipe("a")}
	for _, h := range []*Hold{one.hold, two.hold} {
		b.members, b.commands = append(b.members, &h.members[0]), append(b.commands, lease.Command{Do: lease.Renew})
		b.locks = append(b.locks, h.renewal(h.terms.Millis))
	}
	if unlocked {
		two.hold.lease.Unlock(one.hold.engine.Clock.Now(), nil)
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
