package roster

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/trial"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Ready tries a lock on each node that accepts this locker and is out of quarantine. It returns true as soon as a
// quorum has granted it, and marks nothing. tried has an error for each node that did not grant.
func (r *Roster) Ready(ctx context.Context, quorum quorate.Rule) (enoughReady bool, tried []error) {
	list, sent := r.Resolve(), r.clock.Now()
	tried = make([]error, len(r.nodes))
	if list == nil {
		return false, tried
	}
	var mu sync.Mutex
	var ready quorate.Set
	processes := map[string]bool{} // by run id: one process is one vote
	inside.Each(ctx, r.nodes, func(ctx context.Context, i int, n *node.Node) error {
		result := inside.Of(n).Pipe("").Do(ctx, scripts.Look())
		if result.Err != nil {
			return nil
		}
		view := membership.Read(*result.Reply.Look, 0)
		if view.Relation(list) != membership.Accepts || min(view.Quarantine(), inside.Of(n).Quarantine) > 0 {
			return nil
		}
		r.NoteAccepted(i, sent)
		reply, err := trial.Lock(ctx, n, list, scripts.TrialName(r.opts.NewOwner().String()), r.opts.NewOwner(), nil)
		if err == nil && reply.Acquire.Outcome != scripts.Granted {
			return nil // it restarts: a survey tells more
		}
		if tried[i] = err; err != nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !processes[result.RunID] {
			processes[result.RunID], ready = true, ready|quorate.Of(i)
		}
		if quorum.Enough(ready) {
			return errEnough
		}
		return nil
	})
	return quorum.Enough(ready), tried
}
