package membership

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum/model/internal/visited"
)

// outcome is what a search found.
type outcome struct {
	states, transitions, depth int
	complete                   bool // every reachable state was searched
	took                       time.Duration
	trace                      []string // to two holders, or to a token that does not rise
}

func (o outcome) String() string {
	how := "complete"
	switch {
	case o.trace != nil:
		how = fmt.Sprintf("violated after %d steps", len(o.trace))
	case !o.complete:
		how = "bounded"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %v: %s", o.states, o.transitions, o.depth,
		o.took.Round(time.Millisecond), how)
}

// explore searches breadth first, up to limit states. A state is remembered by a hash of 64 bits.
func (w *world) explore(limit int) outcome {
	begun := time.Now()
	seed := maphash.MakeSeed()
	type origin struct {
		from int32
		by   event
	}
	found := outcome{}
	start := w.first()
	origins := []origin{{from: -1}}
	var seen visited.Set
	seen.Add(maphash.Comparable(seed, *start))
	level, first := []state{*start}, 0 // first is the index, in origins, of the level
	var next []state
	last := -1
	for len(level) > 0 && last < 0 && len(origins) < limit {
		next = next[:0]
		nextFirst := len(origins)
		for i := range level {
			w.successors(&level[i], func(by event, s *state) {
				found.transitions++
				if last >= 0 || !seen.Add(maphash.Comparable(seed, *s)) {
					return
				}
				origins = append(origins, origin{int32(first + i), by})
				next = append(next, *s)
				if w.isViolated(s) {
					last = len(origins) - 1
				}
			})
			if last >= 0 || len(origins) >= limit {
				break
			}
		}
		level, next, first = next, level, nextFirst
		found.depth++
	}
	found.states, found.complete = len(origins), len(level) == 0
	var steps []event
	for i := last; i > 0; i = int(origins[i].from) {
		steps = append(steps, origins[i].by)
	}
	slices.Reverse(steps)
	found.trace = w.replay(steps)
	found.took = time.Since(begun)
	return found
}

func (w *world) isViolated(s *state) bool {
	if w.tokens > 0 {
		return s.top == repeated
	}
	_, _, two := w.twoHold(s)
	return two
}

// replay repeats the steps and describes each.
func (w *world) replay(steps []event) (lines []string) {
	s := w.first()
	for _, by := range steps {
		var next state
		w.successors(s, func(other event, n *state) {
			if other == by {
				next = *n
			}
		})
		lines = append(lines, fmt.Sprintf("%-44s %s", w.describe(by, s), w.display(&next)))
		s = &next
	}
	if one, other, two := w.twoHold(s); two {
		lines = append(lines, fmt.Sprintf("clients of %s and of %s may hold", w.setup.lists[one], w.setup.lists[other]))
	}
	return lines
}
