// Package visited searches, and remembers which states it has visited by hashes of 64 bits. It asks for
// every transition, so this is several times as fast as a map.
package visited

import "math/bits"

// Set is a hash table with open addressing. The keys are hashes, so their own bits choose the slot.
type Set struct {
	slots []uint64 // 0 for a free one
	count int
}

// Add adds a key, and reports whether it was not there.
func (s *Set) Add(key uint64) bool {
	if key == 0 {
		key = 1 // two hashes of 2^64 count as one
	}
	if 2*(s.count+1) > len(s.slots) {
		s.grow()
	}
	if !s.put(key) {
		return false
	}
	s.count++
	return true
}

// Once returns what is known of a key. The first time it makes it.
func Once[K comparable, V any](known map[K]V, key K, make func() V) V {
	v, ok := known[key]
	if !ok {
		v = make()
		known[key] = v
	}
	return v
}

func (s *Set) put(key uint64) bool {
	mask := uint64(len(s.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case key:
			return false
		case 0:
			s.slots[i] = key
			return true
		}
	}
}

func (s *Set) grow() {
	old := s.slots
	s.slots = make([]uint64, max(1024, 2<<bits.Len(uint(s.count))))
	for _, key := range old {
		if key != 0 {
			s.put(key)
		}
	}
}
