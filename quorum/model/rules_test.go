package model

import (
	"flag"
	"testing"
)

var deep = flag.Bool("model.deep", false, "search with wider bounds, for some minutes, in some GB")

// rule is a safety rule of the protocol that can be switched off.
type rule uint8

const (
	none                 rule = iota
	freshOwner                // an owner id is used for one attempt
	quarantine                // a node that may have forgotten grants nothing new until its old grants are over
	noRepairInQuarantine      // not even to a holder that had its grant, or had none
	ttlOnlyRises              // a renewal never shortens a time to live
	deadStaysDead             // no answer revives a hold whose deadline has passed
	clockReadLast             // an attempt that took too long is not a lock
	countFromOwnSend          // a reply confirms from the instant its own request was sent, not a later one
	raiseOwned                // a token is written back only where the owner still has its grant
	raiseSameGrant            // and by the grant that was read, not by one that a late copy of the request got
	counterOnlyRises          // no script writes a token to a counter that is higher
	countInScript             // the node counts a grant up, not the client above what it read
	frozenReads               // grants read after the quorum was reached count for the deadline, not for the token
	seedFromClock             // a counter that was forgotten starts above its past
	tombstones                // a release that a request may overtake bars its owner
)

// limit is the most states that a search may visit.
const limit = 20_000_000

const allKinds = ^kinds(0)

// How many attempts each client makes.
var (
	two      = [maxClients]uint8{1, 1}
	twoTwice = [maxClients]uint8{2, 2}
	oneTwice = [maxClients]uint8{2, 1}
	three    = [maxClients]uint8{1, 1, 1}
)

// TestProtocol searches the protocol with all its rules, and must find nothing.
func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		name string
		deep bool
		setup
	}{
		{"honest clocks, a node forgets", false,
			setup{honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 1}},
		{"honest clocks, a node restarts, another forgets", false,
			setup{honest: true, attempts: two, lease: 1, maxLease: 1, restarts: 1, forgets: 1}},
		{"honest clocks, a connection dies", false,
			setup{honest: true, attempts: two, lease: 1, maxLease: 1, deaths: 1}},
		{"honest clocks, replies are read late", false,
			setup{honest: true, attempts: two, lease: 1, maxLease: 1, late: allKinds}},
		{"honest clocks, leases of two lengths", false, setup{honest: true, attempts: two, lease: 1, maxLease: 2}},
		{"honest clocks, a second attempt", false, setup{honest: true, attempts: oneTwice, lease: 1, maxLease: 1}},
		{"honest clocks, second waves, a second attempt", false,
			setup{honest: true, attempts: oneTwice, lease: 1, maxLease: 1, waves: true}},
		{"honest clocks, second waves, a node forgets", false,
			setup{honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 1, waves: true, fixed: true}},
		{"lying clocks, second waves, a second attempt", false,
			setup{tokens: true, attempts: oneTwice, lease: 1, maxLease: 1, waves: true, fixed: true}},
		{"honest clocks, three clients", false,
			setup{honest: true, attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"honest clocks, a node forgets, tokens", false,
			setup{honest: true, tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 2, forgets: 1, fixed: true}},
		{"lying clocks", false, setup{tokens: true, attempts: two, lease: 1, maxLease: 1, late: setOf(acquire)}},
		{"lying clocks, two connections die", false,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 2, fixed: true}},
		{"lying clocks, three clients", false,
			setup{tokens: true, attempts: three, lease: 1, maxLease: 1, fixed: true}},
		{"lying clocks, neighbours", false,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 3, fixed: true}},
		{"lying clocks, a neighbour, a connection dies", false,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 1, deaths: 1, fixed: true}},
		{"honest clocks, a neighbour, a node forgets", false,
			setup{honest: true, tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 1, bumps: 1, forgets: 1,
				fixed: true}},

		{"honest clocks, second waves, second attempts, a connection dies", true,
			setup{honest: true, attempts: twoTwice, lease: 1, maxLease: 1, deaths: 1, waves: true, fixed: true}},
		{"lying clocks, second waves, a second attempt, a connection dies", true,
			setup{tokens: true, attempts: oneTwice, lease: 1, maxLease: 1, deaths: 1, waves: true, fixed: true}},
		{"honest clocks, a node forgets, a connection dies", true,
			setup{honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 1, deaths: 1}},
		{"honest clocks, two nodes forget", true,
			setup{honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 2}},
		{"honest clocks, replies are read late", true,
			setup{honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 1, late: allKinds}},
		{"honest clocks, leases of two lengths", true,
			setup{honest: true, attempts: two, lease: 1, maxLease: 2, forgets: 1}},
		{"honest clocks, second attempts", true,
			setup{honest: true, attempts: twoTwice, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"honest clocks, three clients", true, setup{honest: true, attempts: three, lease: 2, maxLease: 2}},
		{"honest clocks, a node forgets, tokens", true,
			setup{honest: true, tokens: true, attempts: two, lease: 2, maxLease: 2, ticks: 4, forgets: 1, fixed: true}},
		{"lying clocks, a connection dies", true,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 1, late: setOf(acquire)}},
		{"lying clocks, second attempts", true,
			setup{tokens: true, attempts: twoTwice, lease: 1, maxLease: 1, fixed: true}},
		{"lying clocks, three clients", true,
			setup{tokens: true, attempts: three, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"lying clocks, neighbours, renewals", true,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 2, late: setOf(acquire)}},
		{"lying clocks, neighbours, a connection dies", true,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 3, deaths: 1, fixed: true}},
		{"lying clocks, a neighbour, two connections die", true,
			setup{tokens: true, attempts: two, lease: 1, maxLease: 1, bumps: 1, deaths: 2, fixed: true}},
		{"lying clocks, a neighbour, three clients", true,
			setup{tokens: true, attempts: three, lease: 1, maxLease: 1, bumps: 1, fixed: true}},
		{"honest clocks, a neighbour, a node forgets", true,
			setup{honest: true, tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 2, bumps: 1, forgets: 1,
				fixed: true}},
	} {
		name := c.name
		if c.deep {
			name += ", deep"
		}
		t.Run(name, func(t *testing.T) {
			if c.deep && !*deep {
				t.Skip("only with -model.deep")
			}
			t.Parallel()
			found := c.explore(limit)
			report(t, &c.setup, found)
			if found.broken != "" {
				t.Error("the protocol breaks a promise")
			}
			if !found.complete && !c.deep {
				t.Error("the search was not complete")
			}
		})
	}
}

// TestRules leaves out one rule at a time: each search must find a broken promise.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		// harmless says why a rule stays although its search finds nothing.
		harmless string
		setup
	}{
		{"a fresh owner id for every attempt", "",
			setup{off: freshOwner, honest: true, attempts: oneTwice, lease: 1, maxLease: 1, deaths: 1, fixed: true}},
		{"quarantine of a node that forgot", "",
			setup{off: quarantine, honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 1}},
		{"no repair into quarantine", "",
			setup{off: noRepairInQuarantine, honest: true, attempts: two, lease: 2, maxLease: 2, forgets: 1}},
		{"a time to live is never shortened", "",
			setup{off: ttlOnlyRises, honest: true, attempts: two, lease: 1, maxLease: 2}},
		{"a dead handle is never revived", "",
			setup{off: deadStaysDead, honest: true, attempts: two, lease: 2, maxLease: 2}},
		{"the clock is read last", "",
			setup{off: clockReadLast, honest: true, attempts: two, lease: 1, maxLease: 1}},
		{"a grant counts from its own request", "",
			setup{off: countFromOwnSend, honest: true, attempts: two, lease: 2, maxLease: 2, late: setOf(acquire)}},
		{"a token is written back only where owned", "",
			setup{off: raiseOwned, tokens: true, attempts: two, lease: 1, maxLease: 1}},
		{"a token is written back only to the grant that was read", "",
			setup{off: raiseSameGrant, tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 1}},
		{"no script lowers a counter", "",
			setup{off: counterOnlyRises, tokens: true, attempts: two, lease: 1, maxLease: 1}},
		// While no connection dies, nothing is found: owning the grant until the write-back keeps
		// two clients apart.
		{"the script counts up, not the client", "",
			setup{off: countInScript, tokens: true, attempts: two, lease: 1, maxLease: 1, deaths: 1}},
		{"late grants do not count for the token", "",
			setup{off: frozenReads, tokens: true, attempts: two, lease: 1, maxLease: 1}},
		{"counters start from the clock", "",
			setup{off: seedFromClock, honest: true, tokens: true, attempts: two, lease: 1, maxLease: 1, ticks: 2,
				forgets: 1, fixed: true}},
		{"a release leaves a tombstone",
			"It keeps no two holders apart: a request that is granted after the release belongs to " +
				"an attempt that is over. " +
				"But no client releases that grant, so it keeps other clients out for a lease.",
			setup{off: tombstones, honest: true, attempts: two, lease: 1, maxLease: 1, deaths: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := c.explore(limit)
			report(t, &c.setup, found)
			switch {
			case c.harmless == "" && found.broken == "":
				t.Error("without the rule no promise is broken")
			case c.harmless != "" && found.broken != "":
				t.Error("without the rule a promise is broken: it is not harmless")
			case c.harmless != "":
				t.Log(c.harmless)
			}
		})
	}
}

func report(t *testing.T, m *setup, found outcome) {
	t.Helper()
	t.Logf("%+v", *m)
	t.Log(found)
	for i, line := range found.trace {
		t.Logf("%3d. %s", i+1, line)
	}
}
