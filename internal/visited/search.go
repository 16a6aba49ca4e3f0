package visited

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Space is what a search searches: states S, and the steps E between them.
type Space[S any, E comparable] struct {
	Start      S
	Key        func(*S) uint64 // a hash by which a state is remembered
	Successors func(*S, func(E, *S))
	Breaks     func(*S) bool // whether a state breaks a promise
}

// Found is what a search found. It is complete if every reachable state was searched.
type Found[E any] struct {
	States, Transitions, Depth int
	Complete                   bool
	Took                       time.Duration
	Trace                      []E // to a state that breaks a promise
}

func (f Found[E]) String() string {
	how := "complete"
	switch {
	case f.Trace != nil:
		how = fmt.Sprintf("violated after %d steps", len(f.Trace))
	case !f.Complete:
		how = "bounded"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %v: %s", f.States, f.Transitions, f.Depth, f.Took.Round(time.Millisecond), how)
}

// Limit is the most states that a search may visit.
const Limit = 40_000_000

var (
	deep = flag.Bool("model.deep", false, "search to the end, and with wider bounds, for many minutes, in some GB")
	most = flag.Int("model.states", 30_000, "the most states of a search without -model.deep")
)

// Bounded runs a search up to that many states, or to its end if there are 0. With -model.deep a search without a bound
// must be complete by Limit, and another goes to 10 million states at least; without it -model.states bounds them all. A
// deep one runs only with -model.deep.
func Bounded(t *testing.T, states int, isDeep bool, search func(limit int) (complete bool)) {
	if isDeep && !*deep {
		t.Skip("only with -model.deep")
	}
	limit := cmp.Or(states, Limit)
	switch {
	case !*deep:
		limit = min(limit, *most)
	case states > 0:
		limit = max(states, 10_000_000)
	}
	switch complete := search(limit); {
	case complete || states > 0:
	case limit < Limit:
		t.Logf("stopped at %d states: -model.deep searches them all", limit)
	default:
		t.Error("the search was not complete")
	}
}

// block is how many states are allocated at a time. A block is used again once they are searched.
const block = 256

// Search goes breadth first, so a trace that it finds is a shortest one, up to limit states.
func (s *Space[S, E]) Search(limit int) (found Found[E]) {
	type origin struct {
		from int32
		by   E
	}
	begun, origins := time.Now(), []origin{{from: -1}}
	var seen Set
	seen.Add(s.Key(&s.Start))
	blocks := [][]S{make([]S, block)} // the i-th state is in the i/block-th, if it is yet to be searched
	blocks[0][0] = s.Start
	var free [][]S
	at, last, level := 0, -1, 0 // level is the first state of the next level
	for ; at < len(origins) && last < 0 && len(origins) < limit; at++ {
		if at == level {
			level = len(origins)
			found.Depth++
		}
		s.Successors(&blocks[at/block][at%block], func(by E, to *S) {
			found.Transitions++
			if last >= 0 || !seen.Add(s.Key(to)) {
				return
			}
			i := len(origins)
			origins = append(origins, origin{int32(at), by})
			switch n := len(free); {
			case i%block > 0:
			case n > 0:
				blocks, free = append(blocks, free[n-1]), free[:n-1]
			default:
				blocks = append(blocks, make([]S, block))
			}
			blocks[i/block][i%block] = *to
			if s.Breaks(to) {
				last = i
			}
		})
		if at%block == block-1 {
			free, blocks[at/block] = append(free, blocks[at/block]), nil
		}
	}
	found.States, found.Complete = len(origins), at == len(origins)
	for i := last; i > 0; i = int(origins[i].from) {
		found.Trace = append(found.Trace, origins[i].by)
	}
	slices.Reverse(found.Trace)
	found.Took = time.Since(begun)
	return found
}

// Replay repeats the steps. It has each told with the states before and after it.
func (s *Space[S, E]) Replay(steps []E, tell func(by E, before, after *S)) {
	at := s.Start
	for _, by := range steps {
		var next S
		s.Successors(&at, func(other E, to *S) {
			if other == by {
				next = *to
			}
		})
		tell(by, &at, &next)
		at = next
	}
}
