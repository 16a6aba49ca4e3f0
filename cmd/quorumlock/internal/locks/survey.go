package locks

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/looks"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

const (
	// firstSurveys is how many calls first look for names on each master; later it is one per drawing. A call looks
	// at 1000 keys.
	firstSurveys = 10
	// topNames is how many names are inspected at most for one drawing.
	topNames = 200
)

type busy struct {
	name    string
	waiting int // how many connections wait for it, on the master with the most
	changes int // drawings in which the owner differed from the one before
	lock    lockState
}

type survey struct {
	all     bool
	cursors []string // of SCAN, by master
	known   map[string]*busy
	found   []masters.Finding
	began   []looks.Look // the first of each master
	blind   []error      // why a master named no locks, as a *node.Error, or nil
}

// look asks all masters for names, for the states of the names that were found, and for the masters' own state.
func (s *survey) look(ctx context.Context, nodes []*node.Node, isLive bool) {
	rounds := 1
	if s.found == nil {
		rounds = firstSurveys
	}
	for _, b := range s.known {
		b.waiting = 0
	}
	for range rounds {
		s.find(ctx, nodes)
	}
	names := s.ranked()
	names = names[:min(len(names), topNames)]
	locks, found := inspect(ctx, nodes, s.all, isLive, names)
	s.found = found
	if s.began == nil {
		s.began = make([]looks.Look, len(nodes))
	}
	for i := range found {
		if s.began[i].View == nil {
			s.began[i] = found[i].Look()
		}
		found[i].CompareRate(s.began[i])
	}
	for _, lock := range locks {
		b := s.known[lock.Name]
		if b.lock.Owner != "" && lock.Owner != "" && b.lock.Owner != lock.Owner {
			b.changes++
		}
		b.lock = lock
	}
	maps.DeleteFunc(s.known, func(_ string, b *busy) bool { // the next survey of its key finds it again
		return b.waiting == 0 && b.changes == 0 && (b.lock.State == lockstate.Free || b.lock.Name == "")
	})
}

func (s *survey) find(ctx context.Context, nodes []*node.Node) {
	results := masters.Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) pipeline.Result {
		return inside.Of(n).Pipe("").Do(ctx, operators.Survey(s.cursors[i]))
	})
	s.blind = make([]error, len(nodes))
	for i, result := range results {
		r, ok := result.Reply.Other.(*operators.SurveyReply)
		if !ok {
			s.blind[i] = result.Err
			continue
		}
		s.cursors[i] = r.Cursor
		for _, name := range r.Names {
			s.nameKnown(name)
		}
		for name, waiting := range r.Waiting {
			if semaphore, ok := strings.CutPrefix(name, scripts.SlotsName("")); ok {
				s.noteWaiting(semaphore, waiting)
				continue
			}
			b := s.nameKnown(name)
			b.waiting = max(b.waiting, waiting)
		}
	}
}

// noteWaiting records how many connections wait for a semaphore, at its lowest known slot: they take any slot that
// comes free.
func (s *survey) noteWaiting(semaphore string, waiting int) {
	var first *busy
	lowest := scripts.MaxSlots
	for _, b := range s.known {
		if of, slot, ok := scripts.ParseSlot(b.name); ok && of == semaphore && slot < lowest {
			first, lowest = b, slot
		}
	}
	if first != nil {
		first.waiting = max(first.waiting, waiting)
	}
}

func (s *survey) nameKnown(name string) *busy {
	b := s.known[name]
	if b == nil {
		b = &busy{name: name}
		s.known[name] = b
	}
	return b
}

// ranked returns the names: first the ones that too few masters can judge, then the busiest.
func (s *survey) ranked() []string {
	all := slices.SortedFunc(maps.Values(s.known), func(a, b *busy) int {
		return cmp.Or(cmp.Compare(b.is(lockstate.Unknown), a.is(lockstate.Unknown)), cmp.Compare(b.waiting, a.waiting),
			cmp.Compare(b.changes, a.changes), cmp.Compare(b.is(lockstate.Held), a.is(lockstate.Held)), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.name
	}
	return names
}

// is returns 1 for a lock that was seen in that state, else 0.
func (b *busy) is(state string) int {
	if b.lock.Name != "" && b.lock.State == state {
		return 1
	}
	return 0
}
