package plain

import (
	"slices"
	"strings"
)

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
	i := slices.IndexFunc(*all, func(g Group) bool { return g.Reason == reason })
	if i < 0 {
		i = len(*all)
		*all = append(*all, Group{Reason: reason})
	}
	if g := &(*all)[i]; node != "" {
		g.Nodes = append(g.Nodes, node)
	}
}
