package main

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
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
				testkit.Got(m.Do("FLUSHALL"))(t)
			}
			l, err := redlock.Open(fleet.URLs()[:n], quorum.WithLogger(silent),
				quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(startBound)))
			must(t, err)
			got := testing.AllocsPerRun(1000, func() {
				lock := testkit.Got(l.Lock(t.Context(), "a"))(t)
				must(t, lock.Unlock(t.Context()))
			})
			must(t, l.Close())
			testkit.Check(t, got <= most, "N=%d: %v allocations a pair, want at most %v", n, got, most)
		}
	}
}
