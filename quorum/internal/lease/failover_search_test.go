package lease_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/visited"
)

// TestFailover searches masters whose replicas take their places, and must find nothing.
func TestFailover(t *testing.T) {
	searchEach(t, []search{
		{"a replica is promoted", 0, false, setup{single: true, fails: 1, lag: 1}},
		{"there and back", 0, false, setup{single: true, fails: 1, lag: 1, promotions: 2, clock: still, fixed: true}},
		{"the replica's clock is ahead", 0, false, setup{single: true, fails: 1, lag: 1, skew: 1, lease: 2}},
		{"the replica's clock is behind", 100_000, false, setup{single: true, fails: 1, lag: 1, skew: -1, lease: 2}},
		{"a process loses data", 0, false, setup{single: true, fails: 1, lag: 1, lease: 2, forgets: 1}},
		{"a reader", 0, false, setup{single: true, fails: 1, lag: 1, reads: aReader}},
		{"a ticket is given to two", 0, false, setup{single: true, fails: 1, lag: 1, attempts: three, takes: toEither, fixed: true}},
		{"a connection dies", 0, false, setup{single: true, fails: 1, lag: 1, deaths: 1}},
		{"two replicas", 0, false, setup{single: true, fails: 1, replicas: 2, lag: 1, fixed: true}},
		{"lying", 0, false, setup{single: true, fails: 1, lag: 1, clock: lying, fixed: true, deaths: 1}},
		{"two of three", 10_000_000, false, setup{fails: 2, atOnce: true, lease: 2}},
		{"two of three, tokens, lying", 10_000_000, false, setup{fails: 2, lag: 1, atOnce: true, clock: lying, fixed: true}},

		{"a replica is promoted, longer leases", 0, true, setup{single: true, fails: 1, lag: 1, lease: 2}},
		{"there and back, renewals", 0, true, setup{single: true, fails: 1, lag: 1, promotions: 2}},
		{"there and back, a process loses data", 0, true, setup{single: true, fails: 1, lag: 1, promotions: 2, clock: still, fixed: true, forgets: 1}},
		{"there, back and there", 0, true, setup{single: true, fails: 1, lag: 1, promotions: 3, clock: still, fixed: true}},
		{"a replica is two writes behind", 0, true, setup{single: true, fails: 1, lag: 2, lease: 2}},
		{"the replica's clock is behind, there and back", 0, true, setup{single: true, fails: 1, lag: 1, promotions: 2, skew: -1, lease: 2}},
		{"the replica's clock is ahead, there and back", 10_000_000, true, setup{single: true, fails: 1, lag: 1, promotions: 2, skew: 1, lease: 2}},
		{"the replica's clock is behind, there and back, extensions", 10_000_000, true, setup{single: true, fails: 1, lag: 1, promotions: 2, skew: -1, maxLease: 2, extends: true}},
		{"a second attempt", 0, true, setup{single: true, fails: 1, lag: 1, attempts: oneTwice}},
		{"lying, there and back", 0, true, setup{single: true, fails: 1, lag: 1, promotions: 2, clock: lying, fixed: true, deaths: 1}},
		{"one of three, step by step", 0, true, setup{fails: 1, lag: 1, clock: still, fixed: true}},
		{"one of three, step by step, honest", 10_000_000, true, setup{fails: 1, lag: 1, fixed: true}},
		{"two of three, twice", 0, true, setup{fails: 2, promotions: 2, atOnce: true, fixed: true}},
		{"two of three, one loses data", 10_000_000, true, setup{fails: 2, atOnce: true, lease: 2, forgets: 1}},
		{"two of three, tokens, lying, twice", 0, true, setup{fails: 2, promotions: 2, atOnce: true, clock: lying, fixed: true}},
	})
}

// TestLagIsNotEnough searches the rule that needs no seal: a master refuses to write soon after a replica has left it
// (min-replicas-to-write), and the replica's quarantine is longer by that time.
func TestLagIsNotEnough(t *testing.T) {
	for name, c := range map[string]struct {
		setup
		breaks promise
	}{
		"the new master renews while the old one grants":        {setup{single: true, fails: 1, lag: 1, stops: 2, lease: 2}, twoHold},
		"no renewal meanwhile":                                  {setup{single: true, fails: 1, lag: 1, stops: 2, holdsOff: true, lease: 2}, kept},
		"no renewal meanwhile, and the old master stands still": {setup{single: true, fails: 1, lag: 1, stops: 1, holdsOff: true, freezes: true}, twoHold},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.setup)
			found := w.explore(visited.Limit)
			report(t, w, found)
			testkit.Check(t, found.broken == c.breaks, "it finds %q, want %q", promises[found.broken], promises[c.breaks])
		})
	}
}
