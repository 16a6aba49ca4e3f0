package masters

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/trial/heard"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// tryAll tries a lock on each master that grants to a client with the list of the nodes. An empty name stands for a
// reserved one.
func tryAll(ctx context.Context, nodes []*node.Node, found []Finding, name string) {
	list := List(nodes)
	Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) error {
		f := &found[i]
		if !f.IsOK() || len(f.Report.Members) == 0 {
			return nil
		}
		tried := scripts.TrialName(rand.Text()) // so that two checks do not meet
		if name != "" {
			tried = scripts.NewName(name)
		}
		reply, unheard, err := heard.Lock(ctx, n, list, tried)
		switch {
		case err != nil:
		case reply.Outcome == scripts.HeldByAnother:
			err = fmt.Errorf("%q is held by %q: give -name a name that nobody locks", name, reply.Holder)
		case reply.Outcome == scripts.NotAccepted: // since it was looked at
			err = errBlank
		}
		f.tried, f.unfit = err == nil && reply.Outcome == scripts.Granted, err
		if f.tried {
			f.unheard = unheard
		}
		if err != nil {
			f.ready.Err = f.error(err)
		}
		return nil
	})
}
