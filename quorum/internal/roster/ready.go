package roster

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Ready looks at all nodes, and reports whether as many as need accept this locker and are out of
// quarantine. It returns as soon as they are, and marks nothing.
func (r *Roster) Ready(ctx context.Context, need int) bool {
	list, sent := r.Resolve(), r.clock.Now()
	if list == nil {
		return false
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var mu sync.Mutex
	ready := map[string]bool{} // by run id: one process is one vote
	r.each(func(i int, n *node.Node) {
		result := inside.Of(n).Pipe("").Do(ctx, scripts.Look())
		if result.Err != nil {
			return
		}
		view := membership.Read(*result.Reply.Look, 0)
		if view.Standing(list) != membership.Accepts || r.quarantine(i, view) > 0 {
			return
		}
		r.NoteAccepted(i, sent)
		mu.Lock()
		ready[result.RunID] = true
		isEnough := len(ready) >= need
		mu.Unlock()
		if isEnough { // with mu unlocked: ctx is the caller's code
			enough()
		}
	})
	return len(ready) >= need
}
