package roster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Distinct refuses two nodes of one address, two nodes of one name, a master in this process's memory beside others, and
// addresses that make no list. It asks nobody.
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
	return hosts.Mixed(nodes)
}

// Distinct refuses two nodes of one process. A node that did not answer is checked when it grants.
func (s *Survey) Distinct() error {
	nodes := s.roster.nodes
	for i, runID := range s.runIDs {
		if first := slices.Index(s.runIDs, runID); first < i && runID != "" {
			return fmt.Errorf("%w: nodes %s and %s are one process", node.ErrInvalid, nodes[first].Name(), nodes[i].Name())
		}
	}
	return nil
}
