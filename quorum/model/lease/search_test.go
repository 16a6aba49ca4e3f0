package lease

import (
	"flag"
	"testing"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

var deep = flag.Bool("model.deep", false, "search with wider bounds, for many minutes, in some GB")

// limit is the most states that a search may visit.
const limit = 40_000_000

var (
	two      = [maxClients]uint8{1, 1}
	twoTwice = [maxClients]uint8{2, 2}
	oneTwice = [maxClients]uint8{2, 1}
	three    = [maxClients]uint8{1, 1, 1}
	one      = [maxClients]uint8{1}
)

// TestProtocol searches the protocol as it is shipped, and must find nothing.
func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		name   string
		states int // the search stops there; 0 for a complete one
		deep   bool
		setup
	}{
		{"honest clocks, a master forgets", 0, false, setup{attempts: two, lease: 2, maxLease: 2, forgets: 1}},
		{"honest clocks, a master restarts, another forgets", 0, false, setup{attempts: two, lease: 1, maxLease: 1, restarts: 1, forgets: 1}},
		{"honest clocks, a connection dies", 0, false, setup{attempts: two, lease: 1, maxLease: 1, deaths: 1}},
		{"honest clocks, replies are read late", 0, false, setup{attempts: two, lease: 1, maxLease: 1, late: allKinds}},
		{"honest clocks, extensions", 0, false, setup{attempts: two, lease: 1, maxLease: 2, extends: true}},
		{"honest clocks, a second attempt", 0, false, setup{attempts: oneTwice, lease: 1, maxLease: 1}},
		{"honest clocks, second waves, a second attempt", 0, false, setup{attempts: oneTwice, lease: 1, maxLease: 1, waves: true}},
		{"honest clocks, probes", 0, false, setup{attempts: two, lease: 1, maxLease: 1, probes: true}},
		{"honest clocks, second waves, a master forgets", 0, false, setup{attempts: two, lease: 2, maxLease: 2, forgets: 1, waves: true, fixed: true}},
		{"honest clocks, three clients", 0, false, setup{attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"honest clocks, a master forgets, tokens", 0, false,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 2, forgets: 1, fixed: true}},
		{"lying clocks", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, late: of(lease.Ask)}},
		{"lying clocks, two connections die", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 2, fixed: true}},
		{"lying clocks, three clients", 0, false, setup{clock: lying, tokens: true, attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"lying clocks, neighbours", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 3, fixed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.deep && !*deep {
				t.Skip("only with -model.deep")
			}
			w := newWorld(c.setup)
			bound := c.states
			if bound == 0 {
				bound = limit
			}
			found := w.explore(bound)
			report(t, w, found)
			if found.broken != kept {
				t.Error("the protocol breaks a promise")
			}
			if c.states == 0 && !found.complete {
				t.Error("the search was not complete")
			}
		})
	}
}

// report logs what a search found, and its bounds.
func report(t *testing.T, w *world, found outcome) {
	t.Helper()
	t.Logf("%v\n%+v", found, *w.setup)
	for i, line := range found.trace {
		t.Logf("%3d. %s", i+1, line)
	}
}
