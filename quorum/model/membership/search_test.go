package membership

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/visited"
)

var (
	all3 = []string{"abc", "abc", "abc"}
	all4 = []string{"abcd", "abcd", "abcd", "abcd"}
)

// shrinks is four masters of which an operator removes one or another.
var shrinks = setup{names: "abcd", start: all4, lists: []string{"abcd", "abc", "abd"}, silent: 1, maxLease: 2,
	commands: []string{"remove abcd abc", "remove abcd abd", "commit abc", "commit abd", "commit abcd", "abort abcd"}}

// generations is shrinks of masters whose lists are of two generations: an operator has admitted some.
var generations = shrinks.with(func(s *setup) { s.start = []string{"abcd#3", "abcd#1", "abcd#3", "abcd#1"} })

// replaces is three masters of which one is replaced, by way of two.
var replaces = setup{names: "abcd", start: all3, lists: []string{"abc", "ab", "abd"}, silent: 1, maxLease: 2,
	commands: []string{"remove abc ab", "commit abc", "commit ab", "abort abc", "add ab abd", "commit abd", "abort abd"}}

// grows is two masters to which an operator adds one or another.
var grows = setup{names: "abde", start: []string{"ab", "ab"}, lists: []string{"ab", "abd", "abe"}, silent: 1, maxLease: 2,
	commands: []string{"add ab abd", "add ab abe", "commit abd", "commit abe", "abort abd", "abort abe"}}

// swaps is three masters of which one is replaced, by way of four.
var swaps = setup{names: "abcd", start: all3, lists: []string{"abc", "abcd", "abd"}, silent: 1, maxLease: 2,
	commands: []string{"add abc abcd", "commit abcd", "abort abcd", "remove abcd abd", "commit abd"}}

// takesBack is swaps with a commit of the first list, if a change was committed on some masters and
// taken back on the others. It raises generations without end, so no search of it is complete.
var takesBack = swaps.with(func(s *setup) { s.commands = append(slices.Clone(s.commands), "commit abc") })

// founds is two new deployments whose lists share masters.
func founds(names, one, other string) setup {
	return setup{names: names, lists: []string{one, other}, found: true, maxLease: 2}
}

// wipes is after three masters were replaced one by one: all that were removed are wiped, and run on.
var wipes = setup{names: "abcde", start: []string{"", "", "cde#5", "cde#5", "cde#5"}, lists: []string{"abc", "cde"}, silent: 1, maxLease: 2}

// wipedAll is wipes without a master in common.
var wipedAll = setup{names: "abcdef", start: []string{"", "", "", "def#7", "def#7", "def#7"}, lists: []string{"abc", "def"}, found: true, maxLease: 2}

// removed is after two masters became three others, while one was away: it comes back with its list.
var removed = setup{names: "abde", start: []string{"ab", "bde#4", "bde#4", "bde#4"}, lists: []string{"ab", "bde"}, forgets: 1, maxLease: 2}

// retires is three masters that become three others, by way of two: no command is interrupted, and all
// masters answer and are given. The first that is removed runs on, and two of the others forget.
var retires = setup{names: "abcde", start: []string{"abc", "abc>bc", "abc>bc"}, lists: []string{"abc", "cde"}, whole: true, forgets: 2, maxLease: 2,
	commands: []string{"commit abc", "add bc bcd", "commit abcd", "add bcd bcde", "commit abcde", "remove bcde cde"}}

// claimedTwice is four masters that clients had claimed when all restarted, next to clients that may found with three of
// them. One had the list before the claims.
var claimedTwice = setup{names: "abcd", start: []string{"old:?abcd#2", "old:?abcd", "old:?abcd", "old:?abcd"}, lists: []string{"abcd", "bcd"},
	found: true, silent: 1, maxLease: 2}

// cut is a commit that a power failure has interrupted, next to clients with the list before.
var cut = setup{names: "abcd", start: []string{"old:abcd#3", "old:bcd>abcd#2", "old:bcd>abcd#2", "old:bcd>abcd#2"}, lists: []string{"bcd", "abcd"},
	maxLease: 2}

// claimedNext is a master that clients with the list before had claimed during a change.
var claimedNext = setup{names: "abc", start: []string{"bc>abc#2", "?bc>abc#2", "bc>abc#2"}, lists: []string{"bc", "abc"}, silent: 1, maxLease: 2,
	commands: []string{"commit abc", "abort abc"}}

// claimedBefore is a master that a commit has left behind, and that is claimed for its list before: it came back with its
// data, and an operator has admitted it.
var claimedBefore = setup{names: "abcd", start: []string{"abc#3", "abc#3", "abc#3", "?abcd#2"}, lists: []string{"abc", "abcd"},
	silent: 1, maxLease: 2, commands: []string{"add abc abcd", "commit abcd", "abort abcd"}}

// claimedAdded is a master that was added, and then restarted and was admitted before the commit.
var claimedAdded = claimedBefore.with(func(s *setup) {
	s.start = []string{"abc>abcd#3", "abc>abcd#3", "abc>abcd#3", "?abc>abcd#3"}
})

// counts is the tokens of three masters of which one is replaced. No search of it is complete in 40 million states.
var counts = setup{names: "abcd", start: all3, lists: []string{"abc", "ab", "abd"}, tokens: 3, maxLease: 2,
	commands: []string{"remove abc ab", "commit ab", "add ab abd", "commit abd"}}

// countsUp is the tokens of three masters that become five.
var countsUp = setup{names: "abcde", start: []string{"abc", "abc", "abc", "?abc", ""}, lists: []string{"abc", "abcd", "abcde"}, tokens: 3,
	maxLease: 2, commands: []string{"add abc abcd", "commit abcd", "add abcd abcde", "commit abcde"}}

// single is a master to which an operator adds another, of which either is removed.
var single = setup{names: "ab", start: []string{"a", ""}, lists: []string{"a", "ab", "b"}, silent: 1, maxLease: 2,
	commands: []string{"add a ab", "commit ab", "abort a", "abort ab", "remove ab a", "remove ab b", "commit a", "commit b"}}

// with is a setup with other bounds.
func (s setup) with(change func(*setup)) setup {
	change(&s)
	return s
}

func exists(s *setup)      { s.exists = true }
func oneForgets(s *setup)  { s.forgets = 1 }
func twoForget(s *setup)   { s.forgets = 2 }
func oneRestarts(s *setup) { s.restarts = 1 }
func twoRestart(s *setup)  { s.restarts = 2 }
func oneSetBack(s *setup)  { s.back = 1 }
func twoAtOnce(s *setup)   { s.atOnce = 2 }
func longer(s *setup)      { s.maxLease = 4 } // so that clients and commands may use what is a tick old

// TestSearch searches the rules as they are, and must find nothing.
func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name string
		setup
		states int // the search stops there; 0 for a complete one
		deep   bool
	}{
		{"four to three, either way, two commands", shrinks.with(twoAtOnce), 0, false},
		{"four to three, either way, one forgets", shrinks.with(oneForgets), 0, false},
		{"replaced by way of two", replaces.with(oneForgets), 0, false},
		{"replaced by way of two, one restarts", replaces.with(oneRestarts), 150_000, false},
		{"replaced by way of two, two commands", replaces.with(twoAtOnce), 0, false},
		{"replaced by way of four", swaps.with(oneForgets), visited.Limit, false},
		{"added, taken back, and ended by a commit of the list before", takesBack.with(oneForgets), 150_000, false},
		{"two to three, either way, two commands", grows.with(twoAtOnce).with(oneForgets), 0, false},
		{"two deployments that share two", founds("abcd", "abc", "bcd").with(oneForgets), 0, false},
		{"two deployments that share one", founds("abcde", "abc", "cde"), 0, false},
		{"two deployments of which one has the other's masters", founds("abcde", "abc", "abcde"), 0, false},
		{"wiped masters next to the present ones", wipes.with(oneForgets), 0, false},
		{"claims that a restart has left behind", claimedTwice.with(oneForgets).with(oneRestarts), 0, false},
		{"a commit that a power failure has interrupted", cut.with(oneRestarts), 0, false},
		{"a master that was claimed during a change", claimedNext.with(oneRestarts), 0, false},
		{"a master that is claimed for the list before, one forgets", claimedBefore.with(oneForgets), 150_000, false},
		{"a master that is claimed for the list before, two commands", claimedBefore.with(oneRestarts).with(twoAtOnce), 150_000, false},
		{"a master that is added, and was admitted, one forgets", claimedAdded.with(oneForgets), 150_000, false},
		{"a master that is added, and was admitted, two commands", claimedAdded.with(oneRestarts).with(twoAtOnce), 150_000, false},
		{"a removed master next to the present ones", removed.with(exists), 0, false},
		{"wiped masters, and clients that know", wipedAll.with(exists), 0, false},
		{"masters of two generations, two commands", generations.with(twoAtOnce), 0, false},
		{"masters of two generations, one forgets", generations.with(oneForgets), 150_000, false},
		{"a retired master next to the present ones", retires, 0, false},
		{"four to three, either way, one clock is set back", shrinks.with(oneSetBack), 0, false},
		{"replaced by way of two, one clock is set back", replaces.with(oneSetBack), 0, false},
		{"tokens, replaced by way of two", counts, visited.Limit, false},
		{"tokens, three to five", countsUp, 20_000_000, false},
		{"one master, restarts", single.with(twoRestart), 0, false},
		{"one master, restarts and forgets", single.with(oneRestarts).with(oneForgets), 0, false},

		{"four to three, either way, two commands, one forgets", shrinks.with(twoAtOnce).with(oneForgets), 0, true},
		{"four to three, either way, two forget", shrinks.with(twoForget), 0, true},
		{"replaced by way of two, two forget", replaces.with(twoForget), 0, true},
		{"replaced by way of two, one clock is set back, one forgets", replaces.with(oneSetBack).with(oneForgets), 0, true},
		{"replaced by way of two, a longer lease", replaces.with(oneForgets).with(longer), 20_000_000, true},
		{"one master, restarts and forgets, two commands", single.with(oneRestarts).with(oneForgets).with(twoAtOnce), 0, true},
		{"one master, restarts and forgets, a longer lease", single.with(oneRestarts).with(oneForgets).with(longer), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			visited.Bounded(t, c.states, c.deep, func(limit int) (complete bool) {
				w := newWorld(c.setup)
				found := w.explore(limit)
				report(t, w, found)
				testkit.Check(t, found.trace == nil, "the rules are violated")
				return found.Complete
			})
		})
	}
}

// TestNotCovered searches what the rules do not prevent, and docs/safety.md says so.
func TestNotCovered(t *testing.T) {
	for name, s := range map[string]setup{
		"all that were removed are wiped, and an old client founds": wipedAll,
		"a removed master is back, and a present one forgets":       removed,
		"new deployments share one master, which forgets":           founds("abcde", "abc", "cde").with(oneForgets),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(s)
			found := w.explore(visited.Limit)
			report(t, w, found)
			testkit.Check(t, found.trace != nil, "no trace: docs/safety.md may promise more")
		})
	}
}

// report logs what a search found, and its bounds.
func report(t *testing.T, w *world, found outcome) {
	t.Helper()
	t.Logf("%v\nmasters %s, lists %v, commands %q, %d at once; %d forget, %d restart, %d set back, %d silent; a max lease is %d ticks; %d tokens; %d markers",
		found, w.names, w.setup.lists, w.commands, w.atOnce, w.setup.forgets, w.setup.restarts, w.setup.back, w.silent, w.maxLease, w.tokens, len(w.texts))
	for i, line := range found.trace {
		t.Logf("%2d  %s", i+1, line)
	}
}
