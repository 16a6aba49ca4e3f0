package holders

import (
	"strconv"
	"testing"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A locker remembers the last holders alone, however many there are.
func TestMemoryIsBounded(t *testing.T) {
	hs := New(nil, clock.System())
	for i := range 2 * maxHolders {
		owner := strconv.Itoa(i)
		hs.NoteHandedOver(owner)
		identityReply{hs, owner, make(chan struct{})}.Done(pipeline.Result{Err: pipeline.ErrClosed})
		testkit.Check(t, hs.WasHandedOver(owner) && len(hs.handed) <= maxHolders && len(hs.lockers) <= maxHolders,
			"%d: %d were handed over, %d are known", i, len(hs.handed), len(hs.lockers))
	}
	testkit.Check(t, !hs.WasHandedOver("0") && hs.WasHandedOver(strconv.Itoa(maxHolders)), "it is not the oldest that is forgotten")
}
