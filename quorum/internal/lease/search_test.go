package lease_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/visited"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

var (
	twoTwice = [maxClients]uint8{2, 2}
	oneTwice = [maxClients]uint8{2, 1}
	three    = [maxClients]uint8{1, 1, 1}
	one      = [maxClients]uint8{1}

	// The first client hands over: to one of the others, or to the second alongside a third.
	toEither   = [maxClients]bool{false, true, true}
	toSecond   = [maxClients]bool{false, true}
	aReader    = [maxClients]bool{false, true}
	twoReaders = [maxClients]bool{false, true, true}

	pair  = [maxClients]string{"ab", "b"}
	apart = [maxClients]string{"a", "a", "n"}

	noSets = fakeredis.Refusals{Forbidden: "ZADD"}
)

// TestProtocol searches the protocol as it is shipped, and must find nothing.
func TestProtocol(t *testing.T) {
	searchEach(t, []search{
		{"honest, a master forgets", 0, false, setup{lease: 2, forgets: 1}},
		{"honest, a master restarts, another forgets", 0, false, setup{restarts: 1, forgets: 1}},
		{"honest, a master restarts", 0, false, setup{restarts: 1}},
		{"honest, lists are submitted late", 0, false, setup{forgets: 1, slow: true, fixed: true}},
		{"honest, a connection dies", 0, false, setup{deaths: 1}},
		{"honest, replies are read late", 0, false, setup{late: allKinds, dozes: true}},
		{"honest, timers are late", 0, false, setup{dozes: true}},
		{"honest, the machine's own timers", 0, false, setup{timers: true}},
		{"honest, extensions", 0, false, setup{maxLease: 2, extends: true}},
		{"honest, a second attempt", 0, false, setup{attempts: oneTwice}},
		{"honest, probes, a second attempt", 10_000_000, false, setup{attempts: oneTwice, probes: true}},
		{"honest, probes, a master forgets", 10_000_000, false, setup{lease: 2, forgets: 1, probes: true, fixed: true}},
		{"honest, probes", 0, false, setup{probes: true, fixed: true}},
		{"honest, re-entry", 0, false, setup{depths: 2}},
		{"honest, re-entry, probes, fixed", 0, false, setup{depths: 2, probes: true, fixed: true}},
		{"honest, re-entry, lists are submitted late, a master forgets", 0, false, setup{attempts: one, lease: 2, depths: 2, forgets: 1, slow: true}},
		{"honest, min hold", 0, false, setup{minHold: 2}},
		{"honest, max hold", 0, false, setup{maxHold: 2}},
		{"honest, Lockers are closed", 0, false, setup{attempts: oneTwice, closes: true, fixed: true}},
		{"honest, Lockers are closed, min hold", 0, false, setup{closes: true, minHold: 2}},
		{"honest, one of two names", 0, false, setup{names: pair}},
		{"honest, two addresses of one process", 0, false, setup{twins: true, fixed: true}},
		{"honest, two addresses of one process, which forgets", 0, false, setup{twins: true, forgets: 1}},
		{"honest, three clients", 0, false, setup{attempts: three, fixed: true}},
		{"honest, tokens, a master forgets", 0, false, setup{tokens: true, ticks: 2, forgets: 1, fixed: true}},
		{"honest, tokens, a neighbour, a master forgets", 300_000, false, setup{tokens: true, ticks: 1, bumps: 1, forgets: 1, fixed: true}},
		{"still, a connection dies", 0, false, setup{clock: still, deaths: 1, fixed: true}},
		{"still, two connections die, re-entry", 0, false, setup{clock: still, attempts: one, deaths: 2, depths: 2, fixed: true}},
		{"still, two names, tokens, a connection dies", 300_000, false, setup{clock: still, tokens: true, names: pair, deaths: 1, fixed: true}},
		{"lying", 0, false, setup{clock: lying, late: of(lease.Ask)}},
		{"lying, a connection dies", 0, false, setup{clock: lying, deaths: 1, fixed: true}},
		{"lying, two connections die", 0, false, setup{clock: lying, deaths: 2, fixed: true}},
		{"lying, a second attempt, probes", 0, false, setup{clock: lying, attempts: oneTwice, probes: true, fixed: true}},
		{"lying, three clients", 0, false, setup{clock: lying, attempts: three, fixed: true}},
		{"lying, neighbours", 0, false, setup{clock: lying, bumps: 3, fixed: true}},
		{"lying, a neighbour, a connection dies", 0, false, setup{clock: lying, bumps: 1, deaths: 1, fixed: true}},
		{"lying, a neighbour with attempts of its own", 0, false, setup{clock: lying, names: apart, attempts: three, fixed: true}},
		{"lying, one of two names", 0, false, setup{clock: lying, names: pair, fixed: true}},

		{"honest, contexts end before the deadline, a master forgets", 0, false, setup{attempts: one, lease: 3, stop: 1, timers: true, forgets: 1}},
		{"honest, contexts end before the deadline, two clients", 100_000, false, setup{lease: 2, stop: 1, timers: true, dozes: true}},
		{"honest, a lock is handed over, three clients", 0, false, setup{attempts: three, takes: toSecond, fixed: true}},
		{"honest, a lock is handed over, a ticket is given to two", 0, false, setup{attempts: three, takes: toEither, fixed: true}},
		{"honest, a lock is handed over, renewals", 0, false, setup{takes: toSecond}},
		{"honest, a lock is handed over, a connection dies", 0, false, setup{takes: toSecond, deaths: 1}},
		{"honest, a ticket is given to two, a master reverts", 0, false, setup{attempts: three, lease: 2, takes: toEither, fixed: true, reverts: 1}},
		{"honest, a lock is handed over, a master forgets", 0, false, setup{attempts: three, lease: 2, takes: toSecond, fixed: true, forgets: 1}},
		{"still, a ticket is given to two, a connection dies", 0, false, setup{clock: still, attempts: three, takes: toEither, deaths: 1, fixed: true}},
		{"lying, a lock is handed over, three clients", 0, false, setup{clock: lying, attempts: three, takes: toSecond, fixed: true}},
		{"lying, a ticket is given to two, a connection dies", 0, false, setup{clock: lying, attempts: three, takes: toEither, deaths: 1, fixed: true}},
		{"honest, a lock of two names is handed over, next to one", 0, false, setup{names: [maxClients]string{"ab", "ab", "b"}, attempts: three, takes: toSecond, fixed: true}},

		{"honest, a ticket is given to two, a master reverts, all", 0, true, setup{attempts: three, takes: toEither, reverts: 1}},
		{"honest, a lock is handed over, three clients, renewals", 0, true, setup{attempts: three, takes: toSecond}},
		{"still, a ticket is given to two, two connections die", 0, true, setup{clock: still, attempts: three, takes: toEither, deaths: 2, fixed: true}},
		{"honest, a reader", 0, false, setup{reads: aReader}},
		{"honest, a reader, a master forgets", 0, false, setup{lease: 2, reads: aReader, forgets: 1}},
		{"honest, a reader, a master restarts", 0, false, setup{reads: aReader, restarts: 1, fixed: true}},
		{"honest, a reader, probes, a connection dies", 0, false, setup{reads: aReader, probes: true, deaths: 1, fixed: true}},
		{"honest, two readers", 0, false, setup{attempts: three, reads: twoReaders, fixed: true}},
		{"honest, downgrades, a reader", 100_000, false, setup{lease: 2, reads: aReader, lowers: true}},
		{"honest, downgrades, another writer, a master forgets", 100_000, false, setup{lease: 2, lowers: true, forgets: 1}},
		{"honest, downgrades, a reader, replies are read late", 100_000, false, setup{reads: aReader, lowers: true, late: allKinds, dozes: true}},
		{"honest, downgrades, probes, lists are submitted late", 0, false, setup{reads: aReader, lowers: true, probes: true, slow: true, fixed: true}},
		{"still, downgrades, scripts are loaded", 0, false, setup{clock: still, attempts: one, maxLease: 2, lowers: true, reloads: true, extends: true}},
		{"honest, downgrades, another writer, scripts are loaded", 100_000, false, setup{lease: 2, lowers: true, reloads: true}},
		{"still, downgrades, a connection dies, re-entry", 0, false, setup{clock: still, attempts: one, lowers: true, deaths: 1, depths: 2, fixed: true}},
		{"still, a reader, two connections die", 0, false, setup{clock: still, attempts: one, reads: [maxClients]bool{true}, deaths: 2, fixed: true}},
		{"lying, a reader", 0, false, setup{clock: lying, reads: aReader, late: of(lease.Ask)}},
		{"lying, a reader, a connection dies", 0, false, setup{clock: lying, reads: aReader, deaths: 1, fixed: true}},
		{"lying, two readers", 0, false, setup{clock: lying, attempts: three, reads: twoReaders, fixed: true}},
		{"lying, downgrades, a reader", 0, false, setup{clock: lying, reads: aReader, lowers: true, fixed: true}},

		{"honest, a master is out of memory", 0, false, setup{kinds: 1 << itRefuses, refuses: fakeredis.Refusals{Full: true}}},
		{"honest, downgrades, a reader, a master forbids sorted sets", 100_000, false, setup{lease: 2, reads: aReader, lowers: true, kinds: 1 << itRefuses, refuses: noSets}},

		{"still, two names, tokens, two connections die", 10_000_000, true, setup{clock: still, tokens: true, names: pair, deaths: 2, fixed: true}},
		{"honest, two masters forget", 10_000_000, true, setup{lease: 2, forgets: 2}},
		{"honest, a master forgets, a connection dies", 10_000_000, true, setup{lease: 2, forgets: 1, deaths: 1}},
		{"honest, replies are read late, longer leases", 10_000_000, true, setup{lease: 2, late: allKinds, dozes: true}},
		{"honest, extensions, a master forgets", 10_000_000, true, setup{maxLease: 2, extends: true, forgets: 1}},
		{"honest, probes, second attempts, a connection dies", 10_000_000, true, setup{attempts: twoTwice, deaths: 1, probes: true, fixed: true}},
		{"honest, second attempts, a connection dies", 10_000_000, true, setup{attempts: twoTwice, deaths: 1, fixed: true}},
		{"honest, three clients, renewals", 10_000_000, true, setup{attempts: three, lease: 2}},
		{"honest, tokens, a master forgets, all", 10_000_000, true, setup{tokens: true, lease: 2, ticks: 4, forgets: 1, fixed: true}},
		{"honest, tokens, a neighbour, a master forgets, all", 10_000_000, true, setup{tokens: true, ticks: 2, bumps: 1, forgets: 1, fixed: true}},
		{"lying, a connection dies, renewals", 10_000_000, true, setup{clock: lying, deaths: 1, late: of(lease.Ask)}},
		{"lying, second attempts", 10_000_000, true, setup{clock: lying, attempts: twoTwice, fixed: true}},
		{"lying, a second attempt, probes, a connection dies", 10_000_000, true, setup{clock: lying, attempts: oneTwice, deaths: 1, probes: true, fixed: true}},
		{"lying, three clients, a connection dies", 10_000_000, true, setup{clock: lying, attempts: three, deaths: 1, fixed: true}},
		{"lying, neighbours, renewals", 10_000_000, true, setup{clock: lying, bumps: 2, late: of(lease.Ask)}},
		{"lying, neighbours, a connection dies", 10_000_000, true, setup{clock: lying, bumps: 3, deaths: 1, fixed: true}},
		{"lying, a neighbour, two connections die", 0, true, setup{clock: lying, bumps: 1, deaths: 2, fixed: true}},
		{"lying, a neighbour, three clients", 10_000_000, true, setup{clock: lying, attempts: three, bumps: 1, fixed: true}},
	})
}

// search is the bounds of one: it stops at that many states, or is complete if there are 0. A deep one runs only with -model.deep.
type search struct {
	name   string
	states int
	deep   bool
	setup
}

// searchEach wants no search to find a broken promise.
func searchEach(t *testing.T, searches []search) {
	for _, s := range searches {
		t.Run(s.name, func(t *testing.T) {
			visited.Bounded(t, s.states, s.deep, func(limit int) (complete bool) {
				w := newWorld(s.setup)
				found := w.explore(limit)
				report(t, w, found)
				testkit.Check(t, found.broken == kept, "the protocol breaks a promise")
				return found.Complete
			})
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
