package quorum

import "fmt"

// Rule returns the quorum size for a number of nodes: how many of them make a lock. Any two sets of
// that size must share a node. The error says why that number of nodes makes no lock.
type Rule func(nodes int) (need int, err error)

// All is the rule of package multilock: every node.
func All(nodes int) (int, error) {
	if nodes < 1 {
		return 0, fmt.Errorf("%w: a lock needs at least one node", ErrInvalid)
	}
	return nodes, nil
}

// Majority is the rule of package redlock: more than half of an odd number. It refuses an even number:
// that needs as many nodes as the next odd number does, and survives the loss of one node less.
func Majority(nodes int) (int, error) {
	if nodes < 1 {
		return 0, fmt.Errorf("%w: a lock needs at least one node", ErrInvalid)
	}
	if nodes%2 == 0 {
		return 0, fmt.Errorf("%w: a majority needs an odd number of nodes, not %d", ErrInvalid, nodes)
	}
	return nodes/2 + 1, nil
}

// quorumSize returns the quorum size by the rule. If the rule refuses an even number, need is that of
// the next odd number, and unfounded is the rule's error: a change of members passes through such a
// number. It may be used if masters carry that list, and makes no new deployment. need is 0 for a
// number that is never used.
func quorumSize(rule Rule, nodes int) (need int, unfounded error) {
	need, unfounded = rule(nodes)
	switch {
	case unfounded == nil:
		return need, nil
	case nodes < 2 || nodes%2 != 0:
		return 0, unfounded
	}
	if need, err := rule(nodes + 1); err == nil && need <= nodes {
		return need, unfounded
	}
	return 0, unfounded
}
