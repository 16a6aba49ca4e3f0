// Package quorate says which sets of nodes are a quorum. All safety rests on this: any two quorums share a node. No
// other package counts votes: another rule is a change to this file, if all clients have the same. Weights would have to
// be in the list's digest.
package quorate

import (
	"cmp"
	"math/bits"
)

// MaxNodes is the most nodes that a rule can have: a [Set] has a bit for each.
const MaxNodes = 64

// Set is a set of nodes, bit by node.
type Set uint64

// Of returns the set of one node.
func Of(node int) Set { return 1 << node }

func (s Set) Has(node int) bool { return s&Of(node) != 0 }

func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Rule says which sets of N nodes are a quorum: those of Need nodes or more.
type Rule struct{ N, Need int }

// Majority is the rule of more than half of the nodes.
func Majority(nodes int) Rule { return Rule{nodes, nodes/2 + 1} }

// All is the rule of every node.
func All(nodes int) Rule { return Rule{nodes, nodes} }

// IsSafe reports whether any two quorums share a node.
func (r Rule) IsSafe() bool { return r.Need <= r.N && 2*r.Need > r.N }

// NeedsAll reports whether every node is in every quorum.
func (r Rule) NeedsAll() bool { return r.Need == r.N }

// Nodes returns the set of all nodes.
func (r Rule) Nodes() Set { return 1<<r.N - 1 }

// Enough reports whether a quorum is in the set.
func (r Rule) Enough(s Set) bool { return s.Len() >= r.Need }

// Blocks reports whether every quorum has a node in the set.
func (r Rule) Blocks(s Set) bool { return !r.Enough(r.Nodes() &^ s) }

// Blocking returns how many nodes are enough to block, whichever they are.
func (r Rule) Blocking() int { return r.N - r.Need + 1 }

// Verdict is the result of a vote, in which some votes may be open.
type Verdict uint8

const (
	Open Verdict = iota
	Won          // whatever the open votes will be
	Lost         // whatever the open votes will be
)

// Judge returns the verdict on a vote. The nodes in neither set have not granted, and will not.
func (r Rule) Judge(granted, open Set) Verdict {
	switch {
	case r.Enough(granted):
		return Won
	case !r.Enough(granted | open):
		return Lost
	default:
		return Open
	}
}

// Smallest returns the smallest bound that the values of a quorum do not exceed. values has one for each node.
func Smallest[T cmp.Ordered](r Rule, values []T) T { return best(r, values, cmp.Less) }

// Largest returns the largest bound that the values of a quorum reach. values has one for each node.
func Largest[T cmp.Ordered](r Rule, values []T) T {
	return best(r, values, func(a, b T) bool { return cmp.Less(b, a) })
}

// best returns the first bound, in the order of before, that a quorum's values keep.
func best[T cmp.Ordered](r Rule, values []T, before func(a, b T) bool) (best T) {
	found := false
	for _, bound := range values {
		if found && !before(bound, best) {
			continue
		}
		var within Set
		for i, v := range values {
			if !before(bound, v) {
				within |= Of(i)
			}
		}
		if r.Enough(within) {
			best, found = bound, true
		}
	}
	return best
}
