package membership

import (
	"flag"
	"testing"
)

var deep = flag.Bool("model.deep", false, "search with wider bounds, for some minutes, in some GB")

// rule is a safety rule of the protocol that can be switched off.
type rule uint8

const (
	none              rule = iota
	waitAfterCommit        // the next change waits for a max lease after a commit
	waitAfterAbort         // and after an abort
	abortRaises            // an abort raises the generation
	renewalsByList         // a node renews only for a list that it lets in
	noRenewalOnBlank       // and not while it is blank
	noRenewalOnClaim       // nor while it is claimed
	quarantineAtMark       // a mark begins a quarantine
	quarantineAtClaim      // a claim does so, too
	claimsWait             // no claim is confirmed before the quarantines of all claims are over
	quarantineOver         // a change begins when all members are out of quarantine
	evidence               // a client marks on evidence of a quorum, not because enough answer
	evidenceAge            // the evidence is at most a max lease old
	freshAtArrival         // and is so when the mark arrives
	allAnswer              // a client without evidence claims only when all answer
	claimFirst             // it claims all before it marks one
	claimsStand            // no client with evidence overrides a claim
	looksAge               // claims and confirmations come within a max lease of the first look
	compareAndSet          // the command writes only to members that carry what it read
)

// limit is the most states that a search may visit.
const limit = 25_000_000

var (
	c1, c2, c12, c123 = of(1), of(2), of(1, 2), of(1, 2, 3)
	c124, c234, c345  = of(1, 2, 4), of(2, 3, 4), of(3, 4, 5)
	c1234, c12345     = of(1, 2, 3, 4), of(1, 2, 3, 4, 5)
	both              = []list{c123, c124}

	// One change after the other.
	byTwo  = []change{{c123, c12}, {c12, c124}}
	byFour = []change{{c123, c1234}, {c1234, c124}}
	toFive = []change{{c123, c1234}, {c1234, c12345}}
	toOne  = []change{{c123, c12}, {c12, c2}}

	// One change or the other.
	threeOrFour = []change{{c12, c123}, {c12, c124}}
	fiveOrThree = []change{{c1234, c12345}, {c1234, c123}}
	fiveOrFirst = []change{{c1234, c12345}, {c1234, c234}}
	threeOrOne  = []change{{c12, c123}, {c12, c1}}
)

// carried is nodes that carry the list.
func carried(l list, generation int) (all [maxNodes]marker) {
	for _, n := range l.nodes() {
		all[n] = carry(l, generation, 0)
	}
	return all
}

func two(a, b list) [maxClients]member { return [maxClients]member{{a, a}, {b, b}} }

// replaced is 3 replaced by 4 under a client that never upgrades.
func replaced(by []change) setup {
	return setup{start: carried(c123, 1), lists: both, clients: two(c123, c124), changes: by, maxLease: 2}
}

// deployed is two new deployments, whose lists differ.
func deployed(a, b list) setup { return setup{lists: []list{a, b}, clients: two(a, b), maxLease: 2} }

// after is the time after 123→12→124, where 3 was dead when it was removed, and comes back.
func after() setup {
	start := carried(c124, 3)
	start[2] = carry(c123, 1, 0)
	return setup{start: start, lists: both, clients: two(c123, c124), maxLease: 2}
}

// grown is changes from a list, without marks.
func grown(from list, by []change, a, b list) setup {
	return setup{start: carried(from, 1), clients: two(a, b), changes: by, maxLease: 2}
}

// with is the setup with other bounds.
func (m setup) with(change func(*setup)) setup {
	change(&m)
	return m
}

// TestProtocol searches the protocol with all its rules, and must find nothing.
func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		name string
		deep bool
		setup
	}{
		{"replaced by way of four, a node forgets", false,
			replaced(byFour).with(func(m *setup) { m.forgets, m.free = 1, true })},
		{"replaced by way of four, a node restarts", false,
			replaced(byFour).with(func(m *setup) { m.restarts, m.free, m.maxLease = 1, true, 1 })},
		{"replaced by way of two, a node forgets, its clients idle", false,
			replaced(byTwo).with(func(m *setup) { m.forgets, m.free, m.lists = 1, true, []list{c123} })},
		{"replaced by way of two, a node restarts", false,
			replaced(byTwo).with(func(m *setup) { m.restarts, m.free, m.maxLease = 1, true, 1 })},
		{"replaced by way of two, two nodes forget", false,
			replaced(byTwo).with(func(m *setup) { m.forgets, m.lists, m.maxLease = 2, []list{c123}, 1 })},
		{"replaced by way of two, members are read one by one", false,
			replaced(byTwo).with(func(m *setup) { m.forgets, m.free, m.oneByOne, m.maxLease = 1, true, true, 1 })},
		{"replaced by way of two, marks are late", false,
			replaced(byTwo).with(func(m *setup) { m.forgets, m.free, m.late, m.maxLease = 1, true, true, 1 })},
		{"replaced long ago, two nodes forget", false, after().with(func(m *setup) { m.forgets = 2 })},
		{"replaced long ago, three nodes forget", false,
			after().with(func(m *setup) { m.forgets, m.maxLease = 3, 1 })},
		{"replaced long ago, two nodes restart", false,
			after().with(func(m *setup) { m.restarts, m.maxLease = 2, 1 })},
		{"three to five, first and last list", false, grown(c123, toFive, c123, c12345)},
		{"three to five, first and second list", false, grown(c123, toFive, c123, c1234)},
		{"three to five, second and last list", false, grown(c123, toFive, c1234, c12345)},
		{"aborted, another is added", false, grown(c12, threeOrFour, c123, c124).with(func(m *setup) { m.aborts = 2 })},
		{"aborted, another is added, a node forgets", false,
			grown(c12, threeOrFour, c123, c124).with(func(m *setup) {
				m.start[2], m.start[3] = carry(c123, 0, 0)|claimed, carry(c124, 0, 0)|claimed
				m.aborts, m.forgets, m.maxLease, m.lists = 1, 1, 1, []list{c12, c123}
			})},
		{"aborted, one is removed", false,
			grown(c1234, fiveOrThree, c12345, c123).with(func(m *setup) { m.aborts = 1 })},
		{"two runs of the command", false,
			grown(c12, threeOrFour, c123, c124).with(func(m *setup) { m.aborts, m.pair, m.maxLease = 1, true, 1 })},
		{"two runs of the command, the first is removed", false,
			grown(c1234, fiveOrFirst, c12345, c234).with(func(m *setup) { m.aborts, m.pair, m.maxLease = 1, true, 1 })},
		{"new deployments that share two, a node forgets", false,
			deployed(c123, c124).with(func(m *setup) { m.forgets = 1 })},
		{"new deployments that share two, two nodes forget", false,
			deployed(c123, c234).with(func(m *setup) { m.forgets, m.maxLease = 2, 1 })},
		{"new deployments that share one", false, deployed(c123, c345)},

		{"replaced by way of two, a node forgets", true, replaced(byTwo).with(func(m *setup) { m.forgets = 1 })},
		{"replaced by way of two, two nodes forget", true,
			replaced(byTwo).with(func(m *setup) { m.forgets, m.free, m.maxLease = 2, true, 1 })},
		{"replaced by way of four, two nodes forget", true,
			replaced(byFour).with(func(m *setup) { m.forgets, m.free, m.maxLease = 2, true, 1 })},
		{"three to five, a node forgets", true, grown(c123, toFive, c123, c12345).with(func(m *setup) {
			m.forgets, m.free, m.maxLease, m.lists = 1, true, 1, []list{c123, c1234, c12345}
		})},
		{"two runs of the command", true,
			grown(c12, threeOrFour, c123, c124).with(func(m *setup) { m.aborts, m.pair = 2, true })},
		{"new deployments that share two, two nodes forget", true,
			deployed(c123, c234).with(func(m *setup) { m.forgets = 2 })},
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
			if found.trace != nil {
				t.Error("two hold the lock")
			}
			if !found.complete && !c.deep {
				t.Error("the search was not complete")
			}
		})
	}
}

// TestRules leaves out one rule at a time: each search must find two holders.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		// harmless says why a rule stays although its search finds nothing.
		harmless string
		setup
	}{
		{"one member at a time, one for another", "", grown(c123, []change{{c123, c124}}, c123, c124)},
		{"one member at a time, two more", "", grown(c123, []change{{c123, c12345}}, c123, c12345)},
		{"no list of one", "", grown(c12, threeOrOne, c123, c1).with(func(m *setup) { m.aborts = 1 })},
		{"the wait after a commit", "", replaced(byTwo).with(func(m *setup) { m.off = waitAfterCommit })},
		{"the wait after a commit, by way of four", "",
			replaced(byFour).with(func(m *setup) { m.off = waitAfterCommit })},
		{"the wait after an abort", "",
			grown(c12, threeOrFour, c123, c124).with(func(m *setup) { m.off, m.aborts = waitAfterAbort, 1 })},
		{"an abort raises the generation", "", grown(c12, threeOrFour, c123, c124).with(func(m *setup) {
			m.off, m.aborts, m.pair, m.maxLease = abortRaises, 1, true, 1
		})},
		{"renewals by list", "", replaced(byTwo).with(func(m *setup) { m.off = renewalsByList })},
		{"no renewal on a blank node",
			"It matters only where a list toOnes to one, which is refused: see the next search.",
			replaced(byTwo).with(func(m *setup) {
				m.off, m.restarts, m.free, m.maxLease = noRenewalOnBlank, 1, true, 1
			})},
		{"no renewal on a blank node, to one", "", grown(c123, toOne, c123, c2).with(func(m *setup) {
			m.off, m.restarts, m.lists = noRenewalOnBlank, 1, []list{c123}
		})},
		{"no renewal on a claimed node", "",
			after().with(func(m *setup) { m.off, m.restarts, m.lists = noRenewalOnClaim, 2, []list{c123} })},
		{"quarantine at a mark", "", grown(c123, []change{{c123, c1234}}, c123, c1234).with(func(m *setup) {
			m.off, m.forgets, m.lists, m.maxLease = quarantineAtMark, 1, []list{c123}, 1
		})},
		{"quarantine at a claim", "", after().with(func(m *setup) {
			m.off, m.forgets, m.lists, m.maxLease = quarantineAtClaim, 2, []list{c123}, 1
		})},
		{"claims wait for each other", "", deployed(c123, c234).with(func(m *setup) {
			m.off, m.forgets, m.maxLease = claimsWait, 2, 1
		})},
		{"out of quarantine before a change", "", replaced(byTwo).with(func(m *setup) {
			m.off, m.forgets, m.lists = quarantineOver, 1, []list{c12}
		})},
		{"evidence of a quorum", "", after().with(func(m *setup) { m.off, m.forgets = evidence, 1 })},
		{"the age of the evidence", "", replaced(byTwo).with(func(m *setup) {
			m.off, m.forgets, m.lists = evidenceAge, 1, []list{c123}
		})},
		{"the age of the evidence when the mark arrives", "", replaced(byTwo).with(func(m *setup) {
			m.off, m.forgets, m.lists, m.late, m.maxLease = freshAtArrival, 2, []list{c123}, true, 1
			m.start = [maxNodes]marker{carry(c123, 1, c12), carry(c123, 1, c12), carry(c123, 1, 0)}
		})},
		{"all answer", "", after().with(func(m *setup) { m.off, m.forgets = allAnswer, 1 })},
		{"claims before marks", "", deployed(c123, c345).with(func(m *setup) { m.off = claimFirst })},
		{"claims are not overridden", "Evidence from before the claims has lapsed when they are confirmed.",
			after().with(func(m *setup) { m.off, m.forgets, m.maxLease = claimsStand, 3, 1 })},
		{"the age of a look", "", replaced(byTwo).with(func(m *setup) {
			m.off, m.forgets, m.lists, m.maxLease, m.free = looksAge, 2, []list{c123}, 1, true
		})},
		{"compare-and-set by the command", "", grown(c123, []change{{c123, c1234}}, c123, c1234).with(func(m *setup) {
			m.off, m.forgets, m.lists, m.maxLease = compareAndSet, 1, []list{c123}, 1
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := c.explore(limit)
			report(t, &c.setup, found)
			switch {
			case c.harmless == "" && found.trace == nil:
				t.Error("without the rule no two hold")
			case c.harmless != "" && found.trace != nil:
				t.Error("without the rule two hold: it is not harmless")
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
