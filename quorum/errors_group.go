package quorum

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/node"
)

// grouped joins the errors of nodes, and says what several nodes have in common once: "nodes a, b:
// acquire: ...; node c: ...".
func grouped(errs []error) string {
	var reasons []string // in the order of the first node of each
	nodes := map[string][]string{}
	for _, err := range errs {
		reason, name := err.Error(), ""
		var failed *node.Error
		if errors.As(err, &failed) {
			if rest, found := strings.CutPrefix(reason, fmt.Sprintf("node %s: ", failed.Node)); found {
				reason, name = rest, failed.Node
			}
		}
		if _, known := nodes[reason]; !known {
			reasons = append(reasons, reason)
			nodes[reason] = nil
		}
		if name != "" {
			nodes[reason] = append(nodes[reason], name)
		}
	}
	for i, reason := range reasons {
		switch of := nodes[reason]; len(of) {
		case 0:
		case 1:
			reasons[i] = fmt.Sprintf("node %s: %s", of[0], reason)
		default:
			reasons[i] = fmt.Sprintf("nodes %s: %s", strings.Join(of, ", "), reason)
		}
	}
	return strings.Join(reasons, "; ")
}
