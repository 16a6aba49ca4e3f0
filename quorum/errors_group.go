package quorum

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
)

// grouped joins the errors of nodes, and says what several nodes have in common once: "nodes a, b:
// acquire: ...; node c: ...".
func grouped(errs []error) string {
	var groups plain.Grouped
	for _, err := range errs {
		reason, name := err.Error(), ""
		var failed *node.Error
		if errors.As(err, &failed) {
			if rest, found := strings.CutPrefix(reason, fmt.Sprintf("node %s: ", failed.Node)); found {
				reason, name = rest, failed.Node
			}
		}
		groups.Add(name, reason)
	}
	texts := make([]string, len(groups))
	for i, g := range groups {
		switch len(g.Nodes) {
		case 0:
			texts[i] = g.Reason
		case 1:
			texts[i] = fmt.Sprintf("node %s: %s", g, g.Reason)
		default:
			texts[i] = fmt.Sprintf("nodes %s: %s", g, g.Reason)
		}
	}
	return strings.Join(texts, "; ")
}
