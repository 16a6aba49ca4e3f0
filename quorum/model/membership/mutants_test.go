package membership

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
	"github.com/quorumlock/quorumlock/internal/visited"
)

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

func in(file, text, now string) []mutate.Edit {
	return []mutate.Edit{{File: file, Text: text, Now: now}}
}

// A master that was removed while it was dead comes back with its old list.
var stale = setup{names: "abcd", start: []string{"abd#3", "abd#3", "abc#1", "abd#3"}, lists: []string{"abc", "abd"},
	forgets: 1, silent: 1, maxLease: 2}

// mutants are small edits of shipped files. Each leaves out one rule. The programs of internal/fakeredis stand for the Lua, to
// which vectors hold them.
var mutants = []mutate.Mutant[setup]{
	{Rule: "a majority accepts who marks a blank master", Edits: in(markFile, "return top, IsMajority(c.List, accepting)", "return top, len(accepting) > 0"), Setup: stale},
	{Rule: "a blank master gets no next members", Edits: in(markFile, "	top.Next = scripts.NewList()\n", ""),
		Setup: setup{names: "abcd", start: []string{"abcd>acd", "abcd", "abcd", "abcd"}, lists: []string{"abcd", "acd", "bcd"},
			commands: []string{"remove abcd bcd"}, forgets: 1, silent: 1, maxLease: 2}},
	{Rule: "a mark begins a quarantine", Edits: in(markFile, "	return scripts.In(quarantine)", "	return scripts.In(0)"), Setup: shrinks.with(oneForgets)},
	{Rule: "a change waits after a mark", Edits: in(markFile, "v.Admission(c.Quarantine(i)), scripts.In(v.Process.MaxLease))", "v.Admission(c.Quarantine(i)), scripts.At(0))"),
		Setup: shrinks.with(oneForgets)},
	{Rule: "without a majority, all answer", Edits: in(markFile, "		if v == nil {\n			return nil\n		}\n", "		if v == nil {\n			continue\n		}\n"), Setup: stale},
	{Rule: "claims come before marks", Edits: in(markFile, "m.Claimed, m.Next = true,", "m.Claimed, m.Next = false,"), Setup: founds("abcde", "abc", "cde")},
	{Rule: "claims wait for each other", Edits: in(markFile, "if views[i].Quarantine() > 0 {", "if false {"), Setup: founds("abcd", "abc", "bcd").with(twoForget)},
	{Rule: "a master that came back with another list is not claimed", Edits: in(markFile, "v.HadAnother(c.List), ", ""),
		Setup: setup{names: "abcde", start: []string{"old:abc", "old:abc", "old:cde", "cde", "cde"}, lists: []string{"abc", "cde"}, maxLease: 2}},
	{Rule: "an existing deployment is not founded", Edits: in(markFile, "case c.Exists && !v.Has(c.List):", "case false:"),
		Setup: removed.with(exists)},
	{Rule: "compare and set", Edits: in(masterFile, "marker != args[0] || ", ""), Setup: shrinks.with(twoAtOnce)},
	{Rule: "marks have a last instant", Edits: in(masterFile, " || now > millis(args[7])", ""), Setup: late},
	{Rule: "the last instant is half a max lease after the looks began", Edits: in(viewFile, "window := v.Process.MaxLease / 2",
		"window := 2 * v.Process.MaxLease"), Setup: late},
	{Rule: "marks are for the process that was seen", Edits: in(masterFile, " || args[8] != args[9]", ""),
		Setup: setup{names: "abc", start: all3, lists: []string{"abc"}, commands: []string{"remove abc ab"}, restarts: 1, maxLease: 2}},
	{Rule: "the first mark that is not written ends the run", Edits: in(procedureFile, "	if !r.Written {\n		p.late = r.Marker == p.next.seen\n		p.look()\n		return\n	}\n", ""),
		Setup: setup{names: "abde", start: []string{"ab", "ab", "?ab", "?ab"}, lists: []string{"ab", "abd", "abe"},
			commands: []string{"add ab abd", "add ab abe"}, atOnce: 2, maxLease: 2}},
	{Rule: "no announcement next to another", Edits: in(announceFile, "case m.Next.Len() > 0 && !m.Next.Equal(c.To):", "case false:"), Setup: shrinks},
	{Rule: "a change waits for the last one", Edits: in(announceFile, "wait > first.wait {", "wait < 0 {"), Setup: shrinks.with(oneForgets)},
	{Rule: "a wait that starts over is a whole one", Edits: in(announceFile, "scripts.In(v.Marker().MaxLease)", "scripts.In(0)"), Setup: shrinks.with(oneSetBack)},
	{Rule: "all members of the new list answer", Edits: in(announceFile, "v := views[name]\n", "v := views[name]\n		if v == nil {\n			continue\n		}\n"), Setup: shrinks},
	{Rule: "a change waits after a commit", Edits: in(commitFile, "scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))", "scripts.At(m.Admitted), scripts.At(0))"),
		Setup: setup{names: "abcd", start: []string{"abc>abcd", "abc>abcd", "abc>abcd", "abc>abcd"}, lists: []string{"abc", "abcd", "abd"},
			commands: []string{"commit abcd", "remove abcd abd"}, maxLease: 2}},
	{Rule: "a change waits after an abort", Edits: in(abortFile, "scripts.At(m.Admitted), scripts.In(v.Process.MaxLease))", "scripts.At(m.Admitted), scripts.At(0))"),
		Setup: shrinks},
	{Rule: "a removed master is retired", Edits: in(commitFile, "		return removed\n	}", "		return \"\"\n	}"), Setup: retires},
	{Rule: "a removed master that is claimed remembers that it has a list", Edits: in(announceFile, "if m.Members.Len() > 0 {", "if false {"), Setup: returns},
	{Rule: "a commit stands on a majority", Edits: in(commitFile, "case !membership.IsMajority(to, carrying):", "case false:"),
		Setup: shrinks.with(twoAtOnce).with(func(s *setup) { s.start = []string{"abcd#3", "abcd#1", "abc#2", "abcd#1"} })},
	{Rule: "one member at a time", Edits: in(changeFile, "	case !areNeighbours(from, to):", "	case false:"),
		Setup: setup{names: "abcde", start: []string{"abc", "abc", "abc", "?abc", "?abc"}, lists: []string{"abc", "abcde"},
			commands: []string{"add abc abcde"}, maxLease: 2}},
	{Rule: "no list of one", Edits: in(changeFile, "	case to.Len() < 2:", "	case false:"),
		Setup: setup{names: "ab", start: []string{"ab", "ab"}, lists: []string{"ab", "a", "b"}, silent: 1, maxLease: 2,
			commands: []string{"remove ab a", "remove ab b", "commit a", "commit b", "abort ab"}}},
	{Rule: "a claim accepts nobody", Edits: in(markerFile, "sign = claimSign", `sign = ""`), Setup: founds("abcde", "abc", "cde")},
	{Rule: "a master accepts its list only", Edits: in(gateFile, "has[4] == want[4] ||", "true ||"), Setup: stale},
	{Rule: "a database is part of a master's name", Edits: in(namesFile, "return Canonical(name) + suffix(database)", "return name"), Setup: others("C")},
	{Rule: "a prefix is part of a master's name", Edits: in(namesFile, "suffix(database) + prefix", "suffix(database)"), Setup: others("3")},
	{Rule: "a pass over the tokens before a change", Edits: in(announceFile, "tokensOf: c.From, ", ""), Setup: counts},
	{Rule: "the pass is of a majority", Edits: in(procedureFile, "if membership.IsMajority(p.plan.tokensOf, names) {", "if len(names) > 0 {"), Setup: counts},
}

// others is two clients that name the same masters, but one uses another database, or a prefix, on one of them.
func others(master string) setup {
	return setup{names: "abc" + master, start: all3, lists: []string{"abc", "ab" + master}, exists: true, forgets: 1, maxLease: 2}
}

// returns is a removed master that an operator adds again, next to clients with its first list.
var returns = setup{names: "abc", start: []string{"bc#4", "bc#4", "bc#4"}, lists: []string{"a", "bc"}, found: true, restarts: 1, maxLease: 2,
	commands: []string{"add bc abc"}}

// late is a command that pauses for long between two marks.
var late = setup{names: "abcd", start: all4, lists: []string{"abcd", "abc", "acd"}, commands: []string{"remove abcd acd", "remove abcd abc"},
	atOnce: 2, forgets: 1, maxLease: 2, window: 3}

func TestMutants(t *testing.T) {
	mutate.Run(t, mutants, nil, nil, func(s setup) {
		w := newWorld(s)
		report(t, w, w.explore(visited.Limit))
	})
}

// Without an edit the setups of the mutants have no trace: it is the edit that the search finds.
func TestSetupsOfMutants(t *testing.T) {
	mutate.Setups(t, mutants, func(t *testing.T, s setup) {
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
