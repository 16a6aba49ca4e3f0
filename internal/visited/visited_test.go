package visited

import (
	"math/rand/v2"
	"testing"
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
		if added := s.Add(key); added == want[key] {
			t.Fatalf("key %d: added %v, known before %v", key, added, want[key])
		}
		want[key] = true
	}
	if s.count != len(want) {
		t.Errorf("%d keys, want %d", s.count, len(want))
	}
}

func TestZeroIsAKey(t *testing.T) {
	var s Set
	if !s.Add(0) || s.Add(0) {
		t.Error("zero is added once")
	}
}
