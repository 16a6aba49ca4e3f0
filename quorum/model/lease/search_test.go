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

	pair  = [maxClients]string{"ab", "b"}
	apart = [maxClients]string{"a", "a", "n"}
)

// TestProtocol searches the protocol as it is shipped, and must find nothing.
func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		name   string
		states int // the search stops there; 0 for a complete one
		deep   bool
		setup
	}{
		{"honest, a master forgets", 0, false, setup{attempts: two, lease: 2, maxLease: 2, forgets: 1}},
		{"honest, a master restarts, another forgets", 300_000, false, setup{attempts: two, lease: 1, maxLease: 1, restarts: 1, forgets: 1}},
		{"honest, a master restarts", 0, false, setup{attempts: two, lease: 1, maxLease: 1, restarts: 1}},
		{"honest, lists are submitted late", 0, false, setup{attempts: two, lease: 1, maxLease: 1, forgets: 1, slow: true, fixed: true}},
		{"honest, a connection dies", 0, false, setup{attempts: two, lease: 1, maxLease: 1, deaths: 1}},
		{"honest, replies are read late", 0, false, setup{attempts: two, lease: 1, maxLease: 1, late: allKinds, dozes: true}},
		{"honest, timers are late", 0, false, setup{attempts: two, lease: 1, maxLease: 1, dozes: true}},
		{"honest, the machine's own timers", 0, false, setup{attempts: two, lease: 1, maxLease: 1, timers: true}},
		{"honest, extensions", 300_000, false, setup{attempts: two, lease: 1, maxLease: 2, extends: true}},
		{"honest, a second attempt", 0, false, setup{attempts: oneTwice, lease: 1, maxLease: 1}},
		{"honest, a quorum first, a second attempt", 300_000, false, setup{attempts: oneTwice, lease: 1, maxLease: 1, waves: true}},
		{"honest, a quorum first, a master forgets", 300_000, false, setup{attempts: two, lease: 2, maxLease: 2, forgets: 1, waves: true, fixed: true}},
		{"honest, probes", 0, false, setup{attempts: two, lease: 1, maxLease: 1, probes: true, fixed: true}},
		{"honest, re-entry", 300_000, false, setup{attempts: two, lease: 1, maxLease: 1, levels: 2}},
		{"honest, re-entry, a quorum first, fixed", 0, false, setup{attempts: two, lease: 1, maxLease: 1, levels: 2, waves: true, fixed: true}},
		{"honest, re-entry, lists are submitted late, a master forgets", 0, false,
			setup{attempts: one, lease: 2, maxLease: 2, levels: 2, forgets: 1, slow: true}},
		{"honest, min hold", 0, false, setup{attempts: two, lease: 1, maxLease: 1, minHold: 2}},
		{"honest, max hold", 0, false, setup{attempts: two, lease: 1, maxLease: 1, maxHold: 2}},
		{"honest, Lockers are closed", 0, false, setup{attempts: oneTwice, lease: 1, maxLease: 1, closes: true, fixed: true}},
		{"honest, Lockers are closed, min hold", 0, false, setup{attempts: two, lease: 1, maxLease: 1, closes: true, minHold: 2}},
		{"honest, one of two names", 0, false, setup{names: pair, attempts: two, lease: 1, maxLease: 1}},
		{"honest, two addresses of one process", 0, false, setup{attempts: two, lease: 1, maxLease: 1, twins: true, fixed: true}},
		{"honest, two addresses of one process, which forgets", 0, false, setup{attempts: two, lease: 1, maxLease: 1, twins: true, forgets: 1}},
		{"honest, three clients", 0, false, setup{attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"honest, tokens, a master forgets", 0, false, setup{tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 2, forgets: 1, fixed: true}},
		{"honest, tokens, a neighbour, a master forgets", 300_000, false,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 1, bumps: 1, forgets: 1, fixed: true}},
		{"still, a connection dies", 0, false, setup{clock: still, attempts: two, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"still, two connections die, re-entry", 0, false, setup{clock: still, attempts: one, lease: 1, maxLease: 1, deaths: 2, levels: 2, fixed: true}},
		{"still, two names, tokens, a connection dies", 300_000, false,
			setup{clock: still, tokens: true, names: pair, attempts: two, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"lying", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, late: of(lease.Ask)}},
		{"lying, a connection dies", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"lying, two connections die", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 2, fixed: true}},
		{"lying, a second attempt, a quorum first", 0, false,
			setup{clock: lying, tokens: true, attempts: oneTwice, lease: 1, maxLease: 1, waves: true, fixed: true}},
		{"lying, three clients", 0, false, setup{clock: lying, tokens: true, attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"lying, neighbours", 0, false, setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 3, fixed: true}},
		{"lying, a neighbour, a connection dies", 300_000, false,
			setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 1, deaths: 1, fixed: true}},
		{"lying, a neighbour with attempts of its own", 300_000, false,
			setup{clock: lying, tokens: true, names: apart, attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"lying, one of two names", 0, false, setup{clock: lying, tokens: true, names: pair, attempts: two, lease: 1, maxLease: 1, fixed: true}},

		{"honest, a quorum first, a second attempt, all", 10_000_000, true, setup{attempts: oneTwice, lease: 1, maxLease: 1, waves: true}},
		{"honest, a quorum first, a master forgets, all", 10_000_000, true,
			setup{attempts: two, lease: 2, maxLease: 2, forgets: 1, waves: true, fixed: true}},
		{"lying, a neighbour, a connection dies, all", 0, true,
			setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 1, deaths: 1, fixed: true}},
		{"still, two names, tokens, two connections die", 10_000_000, true,
			setup{clock: still, tokens: true, names: pair, attempts: two, lease: 1, maxLease: 1, deaths: 2, fixed: true}},
		{"honest, two masters forget", 10_000_000, true, setup{attempts: two, lease: 2, maxLease: 2, forgets: 2}},
		{"honest, a master forgets, a connection dies", 10_000_000, true, setup{attempts: two, lease: 2, maxLease: 2, forgets: 1, deaths: 1}},
		{"honest, a master restarts, another forgets, all", 0, true, setup{attempts: two, lease: 1, maxLease: 1, restarts: 1, forgets: 1}},
		{"honest, replies are read late, longer leases", 10_000_000, true, setup{attempts: two, lease: 2, maxLease: 2, late: allKinds, dozes: true}},
		{"honest, extensions, all", 0, true, setup{attempts: two, lease: 1, maxLease: 2, extends: true}},
		{"honest, extensions, a master forgets", 10_000_000, true, setup{attempts: two, lease: 1, maxLease: 2, extends: true, forgets: 1}},
		{"honest, a quorum first, second attempts, a connection dies", 10_000_000, true,
			setup{attempts: twoTwice, lease: 1, maxLease: 1, deaths: 1, waves: true, fixed: true}},
		{"honest, second attempts, a connection dies", 10_000_000, true, setup{attempts: twoTwice, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"honest, re-entry, all", 0, true, setup{attempts: two, lease: 1, maxLease: 1, levels: 2}},
		{"honest, three clients, renewals", 10_000_000, true, setup{attempts: three, lease: 2, maxLease: 2}},
		{"honest, tokens, a master forgets, all", 10_000_000, true,
			setup{tokens: true, attempts: two, lease: 2, maxLease: 2, ticks: 4, forgets: 1, fixed: true}},
		{"honest, tokens, a neighbour, a master forgets, all", 10_000_000, true,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 2, bumps: 1, forgets: 1, fixed: true}},
		{"lying, a connection dies, renewals", 10_000_000, true,
			setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 1, late: of(lease.Ask)}},
		{"lying, second attempts", 10_000_000, true, setup{clock: lying, tokens: true, attempts: twoTwice, lease: 1, maxLease: 1, fixed: true}},
		{"lying, a second attempt, a quorum first, a connection dies", 10_000_000, true,
			setup{clock: lying, tokens: true, attempts: oneTwice, lease: 1, maxLease: 1, deaths: 1, waves: true, fixed: true}},
		{"lying, three clients, a connection dies", 10_000_000, true,
			setup{clock: lying, tokens: true, attempts: three, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"lying, a neighbour with attempts of its own, all", 0, true,
			setup{clock: lying, tokens: true, names: apart, attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"lying, neighbours, renewals", 10_000_000, true,
			setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 2, late: of(lease.Ask)}},
		{"lying, neighbours, a connection dies", 10_000_000, true,
			setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 3, deaths: 1, fixed: true}},
		{"lying, a neighbour, two connections die", 0, true,
			setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 1, deaths: 2, fixed: true}},
		{"lying, a neighbour, three clients", 10_000_000, true,
			setup{clock: lying, tokens: true, attempts: three, lease: 1, maxLease: 1, bumps: 1, fixed: true}},
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
