package masters

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/trial/heard"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

var errBlank = errors.New("it has no list of masters, and others here have: it is new, or has forgotten, and grants nothing until a " +
	"client marks it. Lock any name with this list")

// tryAll tries a lock on each master that a client with the list of the nodes may use. An empty name stands for a
// reserved one.
func tryAll(ctx context.Context, nodes []*node.Node, found []Finding, name string) {
	list, replies := List(nodes), make([]scripts.AcquireReply, len(nodes))
	var trying sync.WaitGroup
	for i, n := range nodes {
		if !found[i].isFit() {
			continue
		}
		trying.Go(func() {
			tried := scripts.TrialName(rand.Text()) // so that two checks do not meet
			if name != "" {
				tried = scripts.NewName(name)
			}
			replies[i], found[i].unfit = heard.Lock(ctx, n, list, tried)
		})
	}
	trying.Wait()
	isKnown, blank := false, []int(nil) // a master accepts the list; those that have none
	for i, reply := range replies {
		f := &found[i]
		f.tried = f.unfit == nil && reply.Outcome == scripts.Granted
		isKnown = isKnown || reply.Outcome != 0 && reply.NotAccepted == nil
		switch {
		case reply.Outcome == scripts.HeldByAnother:
			f.unfit = fmt.Errorf("%q is held by %q: give -name a name that nobody locks", name, reply.Holder)
		case reply.NotAccepted == nil:
		default:
			switch view := membership.ReadRefusal(*reply.NotAccepted); {
			case view.Standing(list) == membership.Refuses:
				f.unfit = view.Refusal(list)
			case view.HadAnother(list):
				f.unfit = fmt.Errorf("%w: it has come back with the list %s, not %s", node.ErrMembership, view.Marker().Members, list)
			default:
				blank = append(blank, i)
			}
		}
	}
	for _, i := range blank {
		if isKnown {
			found[i].unfit = errBlank
		}
	}
}
