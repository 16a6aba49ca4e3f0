package main

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A busy machine slows a pair, but makes it allocate no more.
func TestAllocations(t *testing.T) {
	fleet := testkit.Real(t, 5)
	for _, b := range budgets {
		for n, most := range b.most {
			if b.unit != allocations {
				continue
			}
			for _, m := range fleet.Masters {
				_, err := m.Do("FLUSHALL")
				must(t, err)
			}
			o, err := openOurs(fleet.URLs()[:n], false)
			must(t, err)
			got := testing.AllocsPerRun(1000, func() {
				lock, err := o.lock(t.Context(), "a")
				must(t, err)
				must(t, lock.Unlock(t.Context()))
			})
			must(t, o.close())
			testkit.Check(t, got <= most, "N=%d: %v allocations a pair, want at most %v", n, got, most)
		}
	}
}
