package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// A server that refuses to raise a reader has not renewed it: the reader's lease ends, and a writer may
// come.
func TestAReaderThatIsNotRaisedIsNotRenewed(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	refused := pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{scripts.NotRaised}}}
	reply, err := a.hold.replyOf(lease.Command{Do: lease.Renew}, refused, 0)
	if reply.Is != lease.NotRenewed || !errors.Is(err, errReader) {
		t.Errorf("answer %d, %v", reply.Is, err)
	}
}

// The lease learns that a request was resent, whatever the reply: its first copy may be carried out late.
func TestTheLeaseLearnsThatARequestWasResent(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	for _, resent := range []bool{false, true} {
		for _, r := range []pipeline.Result{
			{Err: errors.New("broken"), Sent: true},
			{Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.HeldByAnother}}},
			{Reply: scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Quarantined}}},
		} {
			r.Resent = resent
			if reply, _ := a.hold.replyOf(lease.Command{Do: lease.Ask}, r, 0); reply.Resent != resent {
				t.Errorf("%+v: resent %v", r, reply.Resent)
			}
		}
	}
}
