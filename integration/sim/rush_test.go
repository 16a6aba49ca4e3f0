package sim

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// rushes is how many attempts a rush begins: four that are open make a locker busy, and one of them
// may be to ask all masters, so that it compares them.
const rushes = 5

// rush begins attempts at names that no other flow locks. Until they have their answers the locker
// is busy, and asks a quorum first.
func (f *flow) rush(locker *quorum.Locker) {
	w := f.world
	for i := range rushes {
		s := f.caller.timerSlot()
		w.flows.Go(func() {
			s.wait()
			f.gate.pass(s)
			lock, err := locker.TryLock(w.ctx, fmt.Sprintf("rush-%d-%d-%d", f.machine.id, f.id, i))
			if err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond) // the second wave comes within 40
			s.wait()
			f.gate.pass(s)
			lock.Unlock(w.ctx)
		})
	}
	f.turn()
}
