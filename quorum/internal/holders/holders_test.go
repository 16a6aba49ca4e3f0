package holders

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// A locker remembers the last holders alone, however many there are.
func TestMemoryIsBounded(t *testing.T) {
	hs := New(nil, clock.System())
	for i := range 2 * maxHolders {
		owner := strconv.Itoa(i)
		hs.NoteHandedOver(owner)
		hs.noteAnswer(owner, pipeline.Result{Err: pipeline.ErrClosed})
		testkit.Check(t, hs.WasHandedOver(owner) && len(hs.handed) <= maxHolders && len(hs.lockers) <= maxHolders,
			"%d: %d were handed over, %d are known", i, len(hs.handed), len(hs.lockers))
	}
	hs.noteAnswer("known", pipeline.Result{Reply: scripts.Reply{Who: []scripts.Identity{{Host: "h"}}}})
	hs.noteAnswer("other", pipeline.Result{Err: pipeline.ErrClosed})
	testkit.Equal(t, hs.Recall(Named{Owner: "known:1"}).Host, "h", "it remembers")
	testkit.Check(t, !hs.WasHandedOver("0") && hs.WasHandedOver(strconv.Itoa(maxHolders)), "it is not the oldest that is forgotten")
}

// A node that is down is not waited for.
func TestNoWaitForADeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testkit.Got(node.Open("redis://127.0.0.1:1"))(t)
		testkit.Must(t, n.Close())
		begun := time.Now()
		New([]*node.Node{n}, clock.System()).Describe(t.Context(), Named{Owner: "other:1", Name: "a"})
		testkit.Equal(t, time.Since(begun), 0, "it was waited for")
	})
}
