package lease

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/quorum/model/internal/mutate"
)

// mutant is a small edit of shipped files that leaves out one rule. The programs of internal/fakeredis
// stand for the Lua, to which vectors hold them.
type mutant struct {
	rule     string
	harmless string // why the rule stays although the search finds nothing
	edits    []mutate.Edit
	setup    setup // in which the search finds a trace
}

const (
	leaseFile   = "quorum/internal/lease/lease.go"
	attemptFile = "quorum/internal/lease/attempt.go"
	keepFile    = "quorum/internal/lease/keep.go"
	useFile     = "quorum/internal/lease/use.go"
	acquireFile = "internal/fakeredis/acquire.go"
	heldFile    = "internal/fakeredis/held.go"
	spaceFile   = "internal/fakeredis/keyspace.go"
	readersFile = "internal/fakeredis/readers.go"
	callsFile   = "scripts/names.go"
)

func in(file, text, now string) []mutate.Edit {
	return []mutate.Edit{{File: file, Text: text, Now: now}}
}

var (
	base   = setup{attempts: two, lease: 1, maxLease: 1}
	tokens = setup{clock: lying, tokens: true, attempts: two, lease: 1, maxLease: 1, fixed: true}
	stands = setup{clock: still, attempts: one, lease: 1, maxLease: 1}
)

// with is a setup with other bounds.
func (s setup) with(change func(*setup)) setup {
	change(&s)
	return s
}

func aDeath(s *setup)     { s.deaths = 1 }
func twoDeaths(s *setup)  { s.deaths = 2 }
func aForgets(s *setup)   { s.forgets = 1 }
func longer(s *setup)     { s.lease, s.maxLease = 2, 2 }
func isExtended(s *setup) { s.maxLease, s.extends = 2, true }
func isFixed(s *setup)    { s.fixed = true }
func readsLate(s *setup)  { s.late = allKinds }
func isEntered(s *setup)  { s.levels = 2 }
func probesToo(s *setup)  { s.probes = true }
func againFirst(s *setup) { s.attempts = oneTwice }
func isSlow(s *setup)     { s.slow = true }
func isDozing(s *setup)   { s.dozes = true }
func inTwoTicks(s *setup) { s.clock, s.ticks = honest, 2 }
func alone(s *setup)      { s.attempts = one }
func isTwinned(s *setup)  { s.twins = true }
func lingersTwo(s *setup) { s.minHold = 2 }
func isTimed(s *setup)    { s.timers = true }
func boundedBy1(s *setup) { s.maxHold = 1 }
func takesOver(s *setup)  { s.attempts, s.takes = two, toSecond }
func besideOne(s *setup)  { s.attempts, s.takes = three, toSecond }
func takesTwice(s *setup) { s.attempts, s.takes = three, toEither }
func aReverts(s *setup)   { s.reverts = 1 }
func isRead(s *setup)     { s.reads = aReader }
func isLowered(s *setup)  { s.lowers = true }
func reloadsIt(s *setup)  { s.reloads = true }

var mutants = []mutant{
	// The rules of the old model.
	{rule: "a fresh owner id for every attempt", edits: in(callsFile, "strconv.AppendUint(b, number, 10)", "strconv.AppendUint(b, 0*number, 10)"),
		setup: base.with(isFixed).with(aDeath).with(againFirst)},
	{rule: "quarantine of a master that forgot", edits: in(acquireFile, "case left > 0:", "case false:"), setup: base.with(longer).with(aForgets)},
	{rule: "no repair into quarantine", edits: in(acquireFile, "carried == 0 || mine < names, false", "carried == 0, false"),
		setup: base.with(longer).with(aForgets)},
	{rule: "a time to live is never shortened", edits: in(spaceFile, "left != -1 && left < ttl", "left != -1"), setup: base.with(isExtended)},
	{rule: "a dead handle is never revived", edits: in(leaseFile, "if l.Kept() && now.Before(l.deadline) {", "if l.Kept() {"),
		setup: base.with(longer).with(isDozing)},
	{rule: "the clock is read last", edits: in(attemptFile, "	if !now.Before(l.deadline) {\n		l.cause = TooLate\n		return false\n	}\n", ""), setup: base},
	{rule: "a grant counts from its own request", edits: in(attemptFile, "l.confirm(now, c.Master, r.Process, c.Until)",
		"l.confirm(now, c.Master, r.Process, l.until(now))"), setup: base.with(readsLate)},
	{rule: "a token is written back only where owned", edits: in(heldFile, "!there || err != nil {", "err != nil || false && there {"), setup: tokens},
	{rule: "a token is written back only to the grant that was read", edits: in(attemptFile, "case r.Token > l.token && r.Late:", "case false:"),
		setup: tokens.with(aDeath)},
	{rule: "no script lowers a counter", edits: in(heldFile, "if !found || counter < token {", "if found || counter < token {"), setup: tokens.with(func(s *setup) { s.bumps = 3 })},
	{rule: "the script counts up, not the client", edits: slices.Concat(in(acquireFile, "			token++\n", ""), in(attemptFile, "	for i := range l.votes {\n		if v := &l.votes[i]; v.has(counted) && v.token",
		"	l.token++\n	for i := range l.votes {\n		if v := &l.votes[i]; v.has(counted) && v.token"),
		in(acquireFile, "	if token >= tooHigh {", "	if token = max(token, 1); token >= tooHigh {")), setup: tokens.with(aDeath)},
	{rule: "late grants do not count for the token", edits: in(attemptFile, "	case r.Token < l.token:\n",
		"	case r.Token < l.token && l.countAll() >= l.terms.Need:\n		l.toRaise = 0\n		return e, append(out, Command{Do: Decided})\n	case r.Token < l.token:\n"), setup: tokens},
	{rule: "counters start from the clock", edits: in(acquireFile, "token = max(token, seed)", "token = max(token, 0*seed)"),
		setup: tokens.with(inTwoTicks).with(aForgets)},
	{rule: "a release leaves a tombstone", edits: in(heldFile, `if last != "0" {`, "if false {"), setup: stands.with(aDeath)},

	// The rules of the machine.
	{rule: "the token is the largest counter that was read", edits: in(attemptFile, "l.token = max(l.token, v.token)", "l.token = v.token"), setup: tokens},
	{rule: "every master that was read confirms the token", edits: in(attemptFile, "	case r.Token < l.token:\n", "	case false:\n"), setup: tokens},
	{rule: "a lost lock is released", edits: in(keepFile, "Drop(out []Command) []Command { return l.release(0, out) }", "Drop(out []Command) []Command { return out }"),
		setup: base.with(longer).with(aForgets)},
	{rule: "the deadline is that of a quorum", edits: in(leaseFile, "quorate.Largest(l.terms.Need, all)", "quorate.Largest(l.terms.Need-1, all)"), setup: base.with(longer)},
	{rule: "one process is one vote", edits: in(leaseFile, "other.process == process {", "false {"), setup: base.with(isTwinned)},
	{rule: "a grant of a master that is asked after the probe counts from the first request", edits: slices.Concat(
		in(attemptFile, "Until: l.until(l.begunAt)", "Until: l.until(l.renewedAt)"),
		in(attemptFile, "	e, answer := Effect{Twin: -1}, r.Is\n", "	e, answer := Effect{Twin: -1}, r.Is\n	l.renewedAt = now\n")),
		setup: base.with(probesToo).with(isFixed).with(longer).with(alone).with(isTimed)},
	{rule: "a renewal counts from its own request", edits: in(keepFile, "l.confirm(now, c.Master, r.Process, c.Until)\n		e.Counts = e.Twin < 0\n	case Gone",
		"l.confirm(now, c.Master, r.Process, l.until(now))\n		e.Counts = e.Twin < 0\n	case Gone"), setup: base.with(longer).with(readsLate)},
	{rule: "re-entry prolongs no fixed lease", edits: in(useFile, "		lease = l.deadline.Sub(now)\n", ""), setup: base.with(alone).with(isFixed).with(isEntered).with(longer)},
	{rule: "an extension asks masters for its own lease", edits: in(useFile, "Do: Extend, Master: i, Lease: lease,", "Do: Extend, Master: i, Lease: l.terms.Lease,"),
		setup: base.with(isExtended).with(isFixed)},
	{rule: "a lock is lost when too few keep it", edits: in(keepFile, "	if l.phase == Held && !now.Before(l.deadline) {\n		return l.lose", "	if false {\n		return l.lose"),
		harmless: "The deadline has passed all the same, so the lock is not valid. The caller learns of it later: when the deadline's timer fires.",
		setup:    base.with(aForgets)},
	{rule: "a renewal does not raise a grant that is denied", edits: in(leaseFile, "		v.until = clock.Never\n", ""),
		harmless: "A master that denied the grant was asked after it confirmed: the time to live that it confirmed has passed, or the master is in quarantine for longer. But no repair goes out.",
		setup:    base.with(aForgets)},
	{rule: "a lock is kept until its min hold is over", edits: in(keepFile, "!(now.Before(l.MinHoldEnd()) && now.Before(l.deadline))", "true"),
		setup: base.with(lingersTwo)},
	{rule: "a max hold bounds the deadline", edits: in(leaseFile, "		at = min(at, l.maxHoldEnd)\n", ""), setup: base.with(boundedBy1).with(alone).with(longer)},
	{rule: "the machine wants to be called no later than at its deadline", edits: in(keepFile, "!l.terms.Fixed && next.Before(l.deadline) {", "!l.terms.Fixed {"),
		setup: base.with(alone).with(isTimed).with(func(s *setup) { s.lease, s.maxLease = 3, 3 })},
	{rule: "no request follows the release", edits: in(attemptFile, "if l.HasEnded() {", "if false {"),
		setup: base.with(alone).with(aForgets).with(isSlow)},
	{rule: "a repair has the level", edits: in(keepFile, "Do: Renew, Master: i, Level: l.level,", "Do: Renew, Master: i, Level: 1,"),
		setup: base.with(alone).with(aForgets).with(isEntered)},
	{rule: "a request that goes out again has the present level", edits: in(attemptFile, "	c.Level = l.level\n", ""),
		setup: base.with(alone).with(longer).with(aForgets).with(isSlow).with(isEntered)},
	{rule: "a release goes to masters that have not answered", edits: in(keepFile, "if l.votes[i].has(mayHold) {", "if l.votes[i].has(mayHold) && l.votes[i].answer != Unanswered {"),
		setup: stands},
	{rule: "a refusal after a resend proves nothing", edits: in(attemptFile, "return !r.Resent", "return true"), setup: stands.with(twoDeaths).with(func(s *setup) { s.attempts = two })},
	// The rules of handing over.
	{rule: "a lock that is handed over has ended", edits: in(useFile, "	l.become(Released)\n	l.cause = HandedOver\n", ""), setup: base.with(isFixed).with(takesOver)},
	{rule: "a lock that is handed over is not released", edits: in(useFile, "return true, append(out, Command{Do: End, Cause: HandedOver})",
		"return true, l.release(0, append(out, Command{Do: End, Cause: HandedOver}))"), setup: base.with(isFixed).with(besideOne)},
	{rule: "who takes over replaces the predecessor", edits: in(acquireFile, "			k.hdel(key, predecessor)\n", ""), setup: base.with(isFixed).with(takesTwice)},
	{rule: "who takes over is granted only where the predecessor is", edits: in(acquireFile, "carried == 0 && mine+inherited < names {", "false {"),
		setup: base.with(isFixed).with(takesTwice)},
	{rule: "to take over is a new grant, which quarantine refuses", edits: in(acquireFile, "carried == 0 || mine < names, false",
		"carried == 0 && inherited == 0 || mine+inherited < names, false"), setup: base.with(longer).with(isFixed).with(takesTwice).with(aReverts)},
	{rule: "who takes over counts the token up", edits: in(acquireFile, "if mine < names {", "if mine+inherited < names {"), setup: tokens.with(takesOver)},
	{rule: "who takes over bars the predecessor", edits: in(acquireFile, "		k.set(keys[len(keys)-1], \"1\", millis(strings.Fields(expected)[2]))\n", ""),
		setup: stands.with(isFixed).with(takesTwice).with(aDeath)},
	{rule: "a writer waits for readers", edits: in(acquireFile, "if isRead && ends < k.now {", "if isRead {"), setup: base.with(isRead)},
	{rule: "a reader waits for a writer", edits: in(readersFile, "held, holder = ttl, k.oneField(key)", "k.delete(key)"), setup: base.with(isRead)},
	{rule: "readers wait for the quarantine of a master that forgot", edits: in(readersFile, "case left > 0:", "case false:"),
		setup: base.with(longer).with(aForgets).with(isRead)},
	{rule: "no repair of a reader into quarantine", edits: in(readersFile, "carried == 0 || !isThere, false", "carried == 0, false"),
		setup: base.with(longer).with(aForgets).with(isRead)},
	{rule: "readers count the token up", edits: in(readersFile, "			token++\n", "			token = max(token, 1)\n"), setup: tokens.with(isRead)},
	{rule: "a reader's release takes it out", edits: in(readersFile, "	found = k.zrem(key, owner)\n", "	found = true\n"),
		setup: stands.with(func(s *setup) { s.reads[0] = true })},
	{rule: "a downgrade leaves no gap", edits: in(readersFile, "		ends = last\n", "		ends = k.now\n"), setup: base.with(longer).with(isLowered)},
	{rule: "a downgrade does not shorten the hold", edits: in(readersFile, "k.now + max(ttl, lease)", "k.now + lease"),
		setup: base.with(isExtended).with(isLowered)},
	{rule: "a request has the present mode", edits: in(attemptFile, "!v.has(mayHold), l.mode", "!v.has(mayHold), l.terms.Mode"),
		setup: base.with(alone).with(isLowered).with(isFixed)},
	{rule: "a request from before the downgrade denies nothing", edits: in(keepFile, "return c.Mode == l.mode", "return true"),
		setup: stands.with(isLowered).with(reloadsIt)},
	{rule: "a request that could not be sent proves nothing of one before", edits: in(keepFile, "if c.fresh {", "if true {"), setup: stands.with(aDeath).with(isEntered)},
}

// countAll is what a mutant calls.
const countAll = `
func (l *Lease) countAll() (n int) {
	for i := range l.votes {
		if v := &l.votes[i]; v.answer == Granted && (v.token >= l.token || v.has(counted) && !v.has(behind)) {
			n++
		}
	}
	return n
}
`

var violated = regexp.MustCompile(`violated after (\d+) steps: ([^(\n]*) \(`)

// TestMutants compiles each mutant, and searches its setup: it must find a trace. Without the edit
// TestSetupsOfMutants finds none there.
func TestMutants(t *testing.T) {
	if rule := mutate.Rule(); rule != "" {
		for _, m := range mutants {
			if m.rule == rule {
				w := newWorld(m.setup)
				report(t, w, w.explore(limit))
			}
		}
		return
	}
	binary := build(t)
	var rows []string
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			out := binary.Search(t, m.rule)
			found := violated.FindStringSubmatch(out)
			switch {
			case m.harmless == "" && found == nil:
				t.Errorf("no trace\n%s", out)
			case m.harmless != "" && found != nil:
				t.Errorf("it is not harmless\n%s", out)
			case m.harmless != "":
				t.Log(m.harmless)
			case testing.Verbose():
				t.Logf("%s", out)
			}
			trace := ""
			if found != nil {
				trace = fmt.Sprintf("%s: %s", found[1], found[2])
			}
			rows = append(rows, m.row(trace))
		})
	}
	table.Write(t, rows, len(mutants))
}

func build(t *testing.T) *mutate.Binary {
	t.Helper()
	var all []mutate.Mutant
	for _, m := range mutants {
		all = append(all, mutate.Mutant{Rule: m.rule, Edits: m.edits})
	}
	return mutate.Build(t, all, map[string]string{attemptFile: countAll})
}

// Without an edit the setups of the mutants have no trace: it is the edit that the search finds.
func TestSetupsOfMutants(t *testing.T) {
	searched := map[setup]bool{} // mutants share setups
	for _, m := range mutants {
		if searched[m.setup] {
			continue
		}
		searched[m.setup] = true
		t.Run(m.rule, func(t *testing.T) {
			w := newWorld(m.setup)
			found := w.explore(100_000)
			if found.broken != kept {
				report(t, w, found)
				t.Error("the setup breaks a promise without the edit")
			}
		})
	}
}
