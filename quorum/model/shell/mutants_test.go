package shell

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
)

func in(file, text, now string) []mutate.Edit {
	return []mutate.Edit{{File: "quorum/internal/" + file, Text: text, Now: now}}
}

// mutants leave out a rule of the shell each. Setup is the scenario that finds it.
var mutants = []mutate.Mutant[string]{
	{Rule: "the contexts of a lost lock end with no mutex locked", Setup: "a loss and Unlock",
		Edits: in("engine/hold.go", "h.engine.background.start(h.finishLost)", "h.endContexts()\n		h.engine.background.start(h.finishLost)")},
	{Rule: "a context is made with no mutex locked", Setup: "two lockers",
		Edits: in("engine/attempt.go", "	h.first.makeContext(h.parent) // before any mutex is locked\n	if h.engine.schedule.Add(&h.entry, h.holdUnlessLate) {",
			"	if h.engine.schedule.Add(&h.entry, func() bool { h.first.makeContext(h.parent); return h.holdUnlessLate() }) {")},
	{Rule: "contexts end before the release is sent", Setup: "a waiter behind a holder",
		Edits: in("engine/release.go", "	h.endContexts()\n	return nil, before\n", "	go func() { h.mu.Lock(); h.mu.Unlock(); h.endContexts() }()\n	return nil, before\n")},
	{Rule: "contexts end before another takes over", Setup: "a hand-over and a renewal",
		Edits: in("engine/use.go", "			h.engine.schedule.Remove(&h.entry)\n			h.endContexts()\n", "			h.engine.schedule.Remove(&h.entry)\n")},
	{Rule: "a lock that is released leaves the schedule", Setup: "Unlock and a renewal",
		Edits: in("engine/release.go", "	h.engine.schedule.Remove(&h.entry) // a renewal is in the pipeline by now, or is never sent\n", "")},
	{Rule: "a lock that is handed over leaves the schedule", Setup: "a hand-over and a renewal",
		Edits: in("engine/use.go", "			h.engine.schedule.Remove(&h.entry)\n			h.endContexts()\n", "			h.endContexts()\n")},
	{Rule: "an attempt is undone on nodes that have not replied", Setup: "a caller gives up",
		Edits: in("engine/attempt.go", "	h.carryOutLocked(toOpen, open)\n", "")},
	{Rule: "an attempt is undone on nodes that granted", Setup: "a caller gives up",
		Edits: in("engine/attempt.go", "	h.carryOutLocked(toGranted, granted)\n", "")},
	{Rule: "what nodes keep of a lost lock is released", Setup: "a loss and Unlock",
		Edits: in("engine/hold.go", "	h.tell(h.lease.Drop)\n", "")},
	{Rule: "the reservations of a writer that gives up end", Setup: "a writer that reserves gives up",
		Edits: in("queue/place.go", "range reserved {", "range reserved[:0] {")},
	{Rule: "no lock is held by an engine that was closed", Setup: "an attempt and Close",
		Edits: in("schedule/schedule.go", "	if s.timer == nil || !ready() {", "	if !ready() {")},
	{Rule: "the next waiter is woken when the first leaves", Setup: "two waiters of a process, one gives up",
		Edits: in("queue/place.go", "	if !q.Empty() {\n		q.armLocked(nil)\n", "	if !q.Empty() {\n")},
	{Rule: "an unlocked lock is released at the end of its min hold", Setup: "the end of a min hold",
		Edits: in("engine/renew.go", "			h.carryOut(releases)\n", "			h.carryOut(releases[:0])\n")},
	{Rule: "a server that refuses to raise a reader has not renewed it", Setup: "a reader that its masters don't renew",
		Edits: in("engine/reply.go", "			return reply, h.engine.NodeError(c.Master, \"renew\", errReader)\n",
			"			reply.Is = lease.Kept\n")},
	{Rule: "a writer that does not wait keeps no reader back", Setup: "a reader, and a writer that tries",
		Edits: in("engine/attempt.go", "	if approach.Reserves() {\n		args.", "	if h.terms.Mode == lease.Write {\n		args.")},
	{Rule: "the lease learns that a request was resent", Setup: "a master restarts out of memory",
		Edits: in("engine/reply.go", "Process: r.RunID, Resent: r.Resent}", "Process: r.RunID}")},
	{Rule: "an extension of a lock that has ended meanwhile is an error", Setup: "Unlock, Extend and a renewal",
		Edits: []mutate.Edit{{File: "quorum/use.go", Text: "	return l.unusable(op, l.handle.Status()) // enough", Now: "	return nil // enough"}}},
	{Rule: "a resent release that finds nothing says nothing of a loss", Setup: "masters restart while a lock is released",
		Edits: in("engine/release.go", "found := result.Resent || said", "found := said")},
	{Rule: "who takes over has a greater token than the ticket", Setup: "a hand-over whose counters are deleted",
		Edits: []mutate.Edit{{File: "quorum/handover.go", Text: "if c.lock.Token() <= t.Token {", Now: "if false {"}}},
	{Rule: "who is replaced is released on nodes that did not replace it", Setup: "a hand-over while a master is away",
		Edits: in("engine/hold.go", "				h.releasePredecessorLocked()\n", "")},
	{Rule: "a lock of a closed Locker has no deadline", Setup: "an attempt and Close",
		Edits: in("lease/use.go", "	l.become(Orphaned)\n	l.deadline = clock.Never\n", "	l.become(Orphaned)\n")},
}

// table is the package's part of docs/reports/mutants.md.
var table = &mutate.Table{
	Head: "| rule left out | in | edit | trace |\n|---|---|---|---|\n",
	End:  "<!-- the end of the shell's table -->",
}

func TestMutants(t *testing.T) {
	mutate.Run(t, mutants, more, table, func(name string) { t.Log(seek(t, name, 1_500)) }, steppedFiles...)
}

// seek plays a scenario in that many orders. The shipped code passes those that find each mutant, too: make soak plays more.
func seek(t *testing.T, name string, orders int) report {
	for _, s := range scenarios {
		if s.name == name {
			r := s.search(t, 1, orders/2)
			r.sample(t, s, 4, orders/2)
			return r
		}
	}
	t.Fatalf("no scenario is called %q", name)
	return report{}
}

func TestTable(t *testing.T) { mutate.Check(t, table, mutants) }
