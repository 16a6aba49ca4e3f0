package membership

import (
	"fmt"
	"hash/maphash"

	"github.com/quorumlock/quorumlock/internal/visited"
)

// outcome is what a search found.
type outcome struct {
	visited.Found[event]
	trace []string // to two holders, or to a token that does not rise
}

// explore searches up to limit states.
func (w *world) explore(limit int) (found outcome) {
	seed := maphash.MakeSeed()
	space := visited.Space[state, event]{
		Start:      *w.first(),
		Key:        func(s *state) uint64 { return maphash.Comparable(seed, *s) },
		Successors: w.successors,
		Breaks:     w.isViolated,
	}
	found.Found = space.Search(limit)
	space.Replay(found.Trace, func(by event, before, after *state) {
		found.trace = append(found.trace, fmt.Sprintf("%-44s %s", w.describe(by, before), w.display(after)))
		if one, other, two := w.twoHold(after); two {
			found.trace = append(found.trace, fmt.Sprintf("clients of %s and of %s may hold", w.setup.lists[one], w.setup.lists[other]))
		}
	})
	return found
}

func (w *world) isViolated(s *state) bool {
	if w.tokens > 0 {
		return s.top == repeated
	}
	_, _, two := w.twoHold(s)
	return two
}
