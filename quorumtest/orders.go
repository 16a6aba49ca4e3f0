package quorumtest

import (
	"slices"
	"sync"
	"testing"
)

// orders are the orders in which flows took names: by the name that a flow held and the one that it took next, all that it held.
// Of two flows with two orders each may hold one name and wait for the other for ever. Whether they did is chance, so the test
// fails anyway.
type orders struct {
	mu    sync.Mutex
	taken map[[2]string][][]string
	wrong [][2]string
}

// note records that a flow waits for names.
func (o *orders) note(holds, wants []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	same := func(other []string) bool { return slices.Equal(other, holds) }
	apart := func(other []string) bool { // a name that both flows held lets one of them in at a time
		return !slices.ContainsFunc(other, func(name string) bool { return slices.Contains(holds, name) })
	}
	for _, held := range holds {
		for _, next := range wants {
			order, back := [2]string{held, next}, [2]string{next, held}
			if slices.ContainsFunc(o.taken[order], same) {
				continue
			}
			o.taken[order] = append(o.taken[order], holds)
			if slices.ContainsFunc(o.taken[back], apart) {
				o.wrong = append(o.wrong, order)
			}
		}
	}
}

// report fails the test at its end.
func (o *orders) report(tb testing.TB) {
	tb.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, names := range o.wrong {
		tb.Errorf("quorumtest: a flow that held %q waited for %q, and one that held %[2]q waited for %[1]q: each may wait for the "+
			"other for ever. Lock both names in one call, or always in one order", names[0], names[1])
	}
}
