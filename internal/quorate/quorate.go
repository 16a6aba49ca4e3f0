// Package quorate is the arithmetic of quorums.
package quorate

import (
	"cmp"
	"slices"
)

// Majority returns the least number of nodes that is more than half of them.
func Majority(nodes int) int { return nodes/2 + 1 }

// Verdict is the result of a vote, in which some votes may be open.
type Verdict uint8

const (
	Open Verdict = iota
	Won          // whatever the open votes will be
	Lost         // whatever the open votes will be
)

// Judge returns the verdict on a vote in which need of the nodes must grant: granted and denied count the votes that are known.
func Judge(nodes, need, granted, denied int) Verdict {
	switch {
	case granted >= need:
		return Won
	case nodes-denied < need:
		return Lost
	default:
		return Open
	}
}

// Smallest returns the smallest bound that at least need values do not exceed. It sorts the values, of which there
// are need at least.
func Smallest[T cmp.Ordered](need int, values []T) T {
	slices.Sort(values)
	return values[need-1]
}

// Largest returns the largest bound that need of the values reach, as Smallest does.
func Largest[T cmp.Ordered](need int, values []T) T {
	slices.Sort(values)
	return values[len(values)-need]
}
