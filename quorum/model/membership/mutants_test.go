package membership

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
	"github.com/quorumlock/quorumlock/internal/visited"
)

// mutant is a small edit of a shipped file that leaves out one rule. The programs of internal/fakeredis
// stand for the Lua, to which vectors hold them.
type mutant struct {
	rule      string
	file      string
	text, now string // every place of the text is replaced
	setup     setup  // in which the search finds a trace
}

const (
	markFile      = "internal/membership/mark.go"
	viewFile      = "internal/membership/view.go"
	changeFile    = "internal/membership/change/change.go"
	announceFile  = "internal/membership/change/announce.go"
	commitFile    = "internal/membership/change/commit.go"
	abortFile     = "internal/membership/change/abort.go"
	procedureFile = "internal/membership/change/procedure.go"
	masterFile    = "internal/fakeredis/operator.go"
	gateFile      = "internal/fakeredis/acquire.go"
	markerFile    = "scripts/marker.go"
	namesFile     = "scripts/scripts.go"
)

// A master that was removed while it was dead comes back with its old list.
var stale = setup{names: "abcd", start: []string{"abd#3", "abd#3", "abc#1", "abd#3"}, lists: []string{"abc", "abd"},
	forgets: 1, silent: 1, maxLease: 2}

var mutants = []mutant{
	{"a majority accepts who marks a blank master", markFile, "return top, IsMajority(c.List, accepting)", "return top, len(accepting) > 0", stale},
	{"a blank master gets no next members", markFile, "m.Next = scripts.NewList()\n	return Mark{", "return Mark{",
		setup{names: "abcd", start: []string{"abcd>acd", "abcd", "abcd", "abcd"}, lists: []string{"abcd", "acd", "bcd"},
			commands: []string{"remove abcd bcd"}, forgets: 1, silent: 1, maxLease: 2}},
	{"a mark begins a quarantine", markFile, "	return scripts.In(quarantine)", "	return scripts.In(0)", shrinks().with(oneForgets)},
	{"a change waits after a mark", markFile, "v.Admission(c.Quarantine(i)), scripts.In(v.Process.MaxLease))", "v.Admission(c.Quarantine(i)), scripts.At(0))",
		shrinks().with(oneForgets)},
	{"without a majority, all answer", markFile, "		if v == nil {\n			return nil\n		}\n", "		if v == nil {\n			continue\n		}\n", stale},
	{"claims come before marks", markFile, "top.Claimed = true", "top.Claimed = false", founds("abcde", "abc", "cde")},
	{"claims wait for each other", markFile, "if views[i].Quarantine() > 0 {", "if false {", founds("abcd", "abc", "bcd").with(twoForget)},
	{"a master that came back with another list is not claimed", markFile, "relation == Blank && v.HadAnother(c.List), ", "",
		setup{names: "abcde", start: []string{"old:abc", "old:abc", "old:cde", "cde", "cde"}, lists: []string{"abc", "cde"}, maxLease: 2}},
	{"an existing deployment is not founded", markFile, "case relation == Blank && c.Exists && !v.had(c.List):", "case false:",
		removed().with(exists)},
	{"compare and set", masterFile, "marker != args[0] || ", "", shrinks().with(twoAtOnce)},
	{"marks have a last instant", masterFile, " || now > millis(args[7])", "", late()},
	{"the last instant is half a max lease after the looks began", viewFile, "window := r.Process.MaxLease / 2",
		"window := 2 * r.Process.MaxLease", late()},
	{"marks are for the process that was seen", masterFile, " || args[8] != args[9]", "",
		setup{names: "abc", start: all3, lists: []string{"abc"}, commands: []string{"remove abc ab"}, restarts: 1, maxLease: 2}},
	{"the first mark that is not written ends the run", procedureFile, "	if !r.Written {\n		p.late = r.Marker == p.next.seen\n		p.look()\n		return\n	}\n", "",
		setup{names: "abde", start: []string{"ab", "ab", "?ab", "?ab"}, lists: []string{"ab", "abd", "abe"},
			commands: []string{"add ab abd", "add ab abe"}, atOnce: 2, maxLease: 2}},
	{"no announcement next to another", announceFile, "case m.Next.Len() > 0 && !m.Next.Equal(c.To):", "case false:", shrinks()},
	{"a change waits for the last one", announceFile, "wait > first.wait {", "wait < 0 {", shrinks().with(oneForgets)},
	{"a wait that starts over is a whole one", announceFile, "scripts.In(v.Marker().MaxLease)", "scripts.In(0)", shrinks().with(oneSetBack)},
	{"all members of the new list answer", announceFile, "v := views[name]\n", "v := views[name]\n		if v == nil {\n			continue\n		}\n", shrinks()},
	{"a change waits after a commit", commitFile, "scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))", "scripts.At(m.Admitted), scripts.At(0))",
		setup{names: "abcd", start: []string{"abc>abcd", "abc>abcd", "abc>abcd", "abc>abcd"}, lists: []string{"abc", "abcd", "abd"},
			commands: []string{"commit abcd", "remove abcd abd"}, maxLease: 2}},
	{"a change waits after an abort", abortFile, "scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))", "scripts.At(m.Admitted), scripts.At(0))",
		shrinks()},
	{"a removed master is retired", commitFile, "		return removed\n	}", "		return \"\"\n	}", retires()},
	{"a commit stands on a majority", commitFile, "case !membership.IsMajority(to, carrying):", "case false:",
		shrinks().with(twoAtOnce).with(func(s *setup) { s.start = []string{"abcd#3", "abcd#1", "abc#2", "abcd#1"} })},
	{"one member at a time", changeFile, "	case !areNeighbours(from, to):", "	case false:",
		setup{names: "abcde", start: []string{"abc", "abc", "abc", "?abc", "?abc"}, lists: []string{"abc", "abcde"},
			commands: []string{"add abc abcde"}, maxLease: 2}},
	{"no list of one", changeFile, "	case to.Len() < 2:", "	case false:",
		setup{names: "ab", start: []string{"ab", "ab"}, lists: []string{"ab", "a", "b"}, silent: 1, maxLease: 2,
			commands: []string{"remove ab a", "remove ab b", "commit a", "commit b", "abort ab"}}},
	{"a claim accepts nobody", markerFile, "sign = claimSign", `sign = ""`, founds("abcde", "abc", "cde")},
	{"a master accepts its list only", gateFile, "has[4] == want[4] ||", "true ||", stale},
	{"a database is part of a master's name", namesFile, "return Canonical(name) + suffix(database)", "return name", others("C")},
	{"a prefix is part of a master's name", namesFile, "suffix(database) + prefix", "suffix(database)", others("3")},
	{"a pass over the tokens before a change", announceFile, "tokensOf: c.From, ", "", counts()},
	{"the pass is of a majority", procedureFile, "if membership.IsMajority(p.plan.tokensOf, names) {", "if len(names) > 0 {", counts()},
}

// others is two clients that name the same masters, but one uses another database, or a prefix, on one of them.
func others(master string) setup {
	return setup{names: "abc" + master, start: all3, lists: []string{"abc", "ab" + master}, exists: true, forgets: 1, maxLease: 2}
}

// late is a command that pauses for long between two marks.
func late() setup {
	return setup{names: "abcd", start: all4, lists: []string{"abcd", "abc", "acd"}, commands: []string{"remove abcd acd", "remove abcd abc"},
		atOnce: 2, forgets: 1, maxLease: 2, window: 3}
}

func asMutants() (all []mutate.Mutant[setup]) {
	for _, m := range mutants {
		all = append(all, mutate.Mutant[setup]{Rule: m.rule, Edits: []mutate.Edit{{File: m.file, Text: m.text, Now: m.now}}, Setup: m.setup})
	}
	return all
}

func TestMutants(t *testing.T) {
	mutate.Run(t, asMutants(), nil, nil, func(s setup) {
		w := newWorld(s)
		report(t, w, w.explore(visited.Limit))
	})
}

// Without an edit the setups of the mutants have no trace: it is the edit that the search finds.
func TestSetupsOfMutants(t *testing.T) {
	mutate.Setups(t, asMutants(), func(t *testing.T, s setup) {
		visited.Bounded(t, 300_000, false, func(limit int) bool {
			s.window = 0 // the rules bound it
			w := newWorld(s)
			found := w.explore(limit)
			if found.trace != nil {
				report(t, w, found)
				t.Error("the setup violates the rules without the edit")
			}
			return found.Complete
		})
	})
}
