package plain

import "strings"

// Group is what several nodes, or sentinels, have in common.
type Group struct {
	Reason string
	Nodes  []string
}

// String returns the nodes' names, separated by commas.
func (g Group) String() string { return strings.Join(g.Nodes, ", ") }

// Grouped is groups in the order of the first node of each.
type Grouped []Group

// Add adds a node, or with an empty name the reason alone.
func (all *Grouped) Add(node, reason string) {
	for i := range *all {
		if g := &(*all)[i]; g.Reason == reason {
			if node != "" {
				g.Nodes = append(g.Nodes, node)
			}
			return
		}
	}
	g := Group{Reason: reason}
	if node != "" {
		g.Nodes = []string{node}
	}
	*all = append(*all, g)
}
