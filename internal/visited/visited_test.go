package visited

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestSet(t *testing.T) {
	var s Set
	want := map[uint64]bool{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		key := rng.Uint64()
		if rng.IntN(3) == 0 {
			key = 1 + key%1000 // neighbours, again and again
		}
		added := s.Add(key)
		testkit.Require(t, added != want[key], "key %d: added %v, known before %v", key, added, want[key])
		want[key] = true
	}
	testkit.Check(t, s.count == len(want), "%d keys, want %d", s.count, len(want))
}

func TestZeroIsAKey(t *testing.T) {
	var s Set
	testkit.Check(t, s.Add(0) && !s.Add(0), "zero is added once")
}
