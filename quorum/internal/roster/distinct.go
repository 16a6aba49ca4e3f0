package roster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Distinct refuses two nodes of one server, by the address and by the run id if the server
// answers, two nodes of one name, a master in this process's memory beside others, and addresses that make no list.
func Distinct(nodes []*node.Node) error {
	for j, n := range nodes {
		if len(nodes) > 1 && inside.Of(n).Alone {
			return fmt.Errorf("%w: node %s is in this process's memory, so it must be the only one: "+
				"another process would have another master of its name", node.ErrInvalid, n.Name())
		}
		for i, m := range nodes[:j] {
			switch {
			case m == n || n.Address() != "" && (m.Address() == n.Address() || m.Name() == n.Name() && !inside.Of(m).Named && !inside.Of(n).Named):
				return fmt.Errorf("%w: node %s is given twice: one process is one vote",
					node.ErrInvalid, cmp.Or(n.Address(), n.Name()))
			case m.Name() == n.Name() && (inside.Of(m).Named || inside.Of(n).Named):
				return fmt.Errorf("%w: nodes %d and %d are both named %q: errors could not "+
					"distinguish them (?name= in a URL names one; WithName in WithNodeOptions gives all nodes one name)", node.ErrInvalid, i+1, j+1, n.Name())
			}
		}
	}
	if err := hosts.Mixed(nodes); err != nil {
		return err
	}
	runIDs := make([]string, len(nodes))
	inside.Each(context.Background(), nodes, func(ctx context.Context, i int, n *node.Node) error {
		ctx, cancel := context.WithTimeout(ctx, n.Timeout())
		defer cancel()
		runIDs[i], _ = inside.Of(n).Identify(ctx) // a node that does not answer is checked when it grants
		return nil
	})
	for i, runID := range runIDs {
		if first := slices.Index(runIDs, runID); first < i && runID != "" {
			return fmt.Errorf("%w: nodes %s and %s are one process", node.ErrInvalid, nodes[first].Name(), nodes[i].Name())
		}
	}
	return nil
}
