package quorum

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
)

// Rule tells how many of a number of nodes make a lock. Any two sets of that many nodes must share one. An error says why
// no lock can be made of so many nodes.
type Rule func(nodes int) (need int, err error)

// All needs every node: the rule of package multilock.
func All(nodes int) (int, error) {
	if nodes < 1 {
		return 0, fmt.Errorf("%w: a lock needs at least one node", ErrInvalid)
	}
	return nodes, nil
}

// Majority needs more than half of an odd number: the rule of package redlock. An even number is refused, since it would
// need as many nodes as the next odd one and survive the loss of no more.
func Majority(nodes int) (int, error) {
	if nodes < 1 {
		return 0, fmt.Errorf("%w: a lock needs at least one node", ErrInvalid)
	}
	if nodes%2 == 0 {
		return 0, fmt.Errorf("%w: a majority needs an odd number of nodes, not %d", ErrInvalid, nodes)
	}
	return nodes/2 + 1, nil
}

// verdict is what a number of answers means for an attempt.
type verdict int

const (
	pending verdict = iota
	won
	lost // it cannot be won any more
)

// judge counts votes: of so many nodes, granted said yes, and denied said no or are known to have failed.
func judge(nodes, need, granted, denied int) verdict {
	switch {
	case granted >= need:
		return won
	case nodes-denied < need:
		return lost
	default:
		return pending
	}
}

// deadlineOf is the instant until which at least need nodes keep their grants: the need-th largest of the instants up to
// which each does. It sorts them.
func deadlineOf(until []clock.Instant, need int) clock.Instant {
	slices.Sort(until)
	return until[len(until)-need]
}
