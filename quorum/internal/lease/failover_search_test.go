package lease_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/visited"
)

// TestFailover searches masters whose replicas take their places, and must find nothing.
func TestFailover(t *testing.T) {
	searchEach(t, []search{
		{"a replica is promoted", 0, false, onePair},
		{"there and back", 0, false, onePair.with(standsToo).with(twice)},
		{"the replica's clock is ahead", 0, false, onePair.with(longer).with(isAhead)},
		{"the replica's clock is behind", 100_000, false, onePair.with(longer).with(isBehind)},
		{"a process loses data", 0, false, onePair.with(longer).with(aForgets)},
		{"a reader", 0, false, onePair.with(isRead)},
		{"a ticket is given to two", 0, false, onePair.with(isFixed).with(takesTwice)},
		{"a connection dies", 0, false, onePair.with(aDeath)},
		{"two replicas", 0, false, onePair.with(isFixed).with(hasTwo)},
		{"lying", 0, false, onePair.with(isLying).with(aDeath)},
		{"two of three", 10_000_000, false, twoOfThree.with(longer)},
		{"two of three, tokens, lying", 10_000_000, false, twoOfThree.with(isLying).with(lagsBehind)},

		{"a replica is promoted, longer leases", 0, true, onePair.with(longer)},
		{"there and back, renewals", 0, true, onePair.with(twice)},
		{"there and back, a process loses data", 0, true, onePair.with(standsToo).with(twice).with(aForgets)},
		{"there, back and there", 0, true, onePair.with(standsToo).with(thrice)},
		{"a replica is two writes behind", 0, true, onePair.with(longer).with(func(s *setup) { s.lag = 2 })},
		{"the replica's clock is behind, there and back", 0, true, onePair.with(longer).with(isBehind).with(twice)},
		{"the replica's clock is ahead, there and back", 10_000_000, true, onePair.with(longer).with(isAhead).with(twice)},
		{"the replica's clock is behind, there and back, extensions", 10_000_000, true, onePair.with(isExtended).with(isBehind).with(twice)},
		{"a second attempt", 0, true, onePair.with(againFirst)},
		{"lying, there and back", 0, true, onePair.with(isLying).with(aDeath).with(twice)},
		{"one of three, step by step", 0, true, onePair.with(standsToo).with(ofThree)},
		{"one of three, step by step, honest", 10_000_000, true, onePair.with(isFixed).with(ofThree)},
		{"two of three, twice", 0, true, twoOfThree.with(isFixed).with(twice)},
		{"two of three, one loses data", 10_000_000, true, twoOfThree.with(longer).with(aForgets)},
		{"two of three, tokens, lying, twice", 0, true, twoOfThree.with(isLying).with(twice)},
	})
}

// TestLagIsNotEnough searches the rule that needs no seal: a master refuses to write soon after a replica has left it
// (min-replicas-to-write), and the replica's quarantine is longer by that time.
func TestLagIsNotEnough(t *testing.T) {
	byLag := onePair.with(longer).with(func(s *setup) { s.stops = 2 })
	short := onePair.with(func(s *setup) { s.stops = 1 })
	for name, c := range map[string]struct {
		setup
		breaks promise
	}{
		"the new master renews while the old one grants":        {byLag, twoHold},
		"no renewal meanwhile":                                  {byLag.with(holdsOff), kept},
		"no renewal meanwhile, and the old master stands still": {short.with(holdsOff).with(freezes), twoHold},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.setup)
			found := w.explore(visited.Limit)
			report(t, w, found)
			testkit.Check(t, found.broken == c.breaks, "it finds %q, want %q", promises[found.broken], promises[c.breaks])
		})
	}
}

func thrice(s *setup)   { s.promotions = 3 }
func ofThree(s *setup)  { s.single = false }
func holdsOff(s *setup) { s.holdsOff = true }
func freezes(s *setup)  { s.freezes = true }
