package lease_test

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
	"github.com/quorumlock/quorumlock/internal/visited"
)

const (
	quorateFile = "internal/quorate/quorate.go"
	leaseFile   = "quorum/internal/lease/lease.go"
	attemptFile = "quorum/internal/lease/attempt.go"
	keepFile    = "quorum/internal/lease/keep.go"
	useFile     = "quorum/internal/lease/use.go"
	acquireFile = "internal/fakeredis/acquire.go"
	heldFile    = "internal/fakeredis/held.go"
	spaceFile   = "internal/fakeredis/keyspace.go"
	readersFile = "internal/fakeredis/readers.go"
	namesFile   = "scripts/names.go"
	sealFile    = "internal/pipeline/seal.go"
)

func in(file, text, now string) []mutate.Edit {
	return []mutate.Edit{{File: file, Text: text, Now: now}}
}

// mutants are small edits of shipped files. Each leaves out one rule. The programs of internal/fakeredis stand for the
// Lua, to which vectors hold them.
var mutants = []mutate.Mutant[setup]{
	// The rules of the old model.
	{Rule: "a fresh owner id for every attempt", Edits: in(namesFile, "strconv.AppendUint(b, number, 10)", "strconv.AppendUint(b, 0*number, 10)"),
		Setup: setup{clock: still, attempts: oneTwice, fixed: true, deaths: 1}},
	{Rule: "quarantine of a master that forgot", Edits: in(acquireFile, "isItsOwn); refusal != nil {", `isItsOwn); refusal != nil && refusal[0] != "quarantined" {`), Setup: setup{lease: 2, forgets: 1}},
	{Rule: "no repair into quarantine", Edits: in(acquireFile, "if carried == 0 || mine < names {", "if carried == 0 {"),
		Setup: setup{lease: 2, forgets: 1}},
	{Rule: "a time to live is never shortened", Edits: in(spaceFile, "left != -1 && left < ttl", "left != -1"), Setup: setup{maxLease: 2, extends: true}},
	{Rule: "a dead handle is never revived", Edits: in(leaseFile, "if l.Kept() && now.Before(l.deadline) {", "if l.Kept() {"),
		Setup: setup{lease: 2, dozes: true}},
	{Rule: "the clock is read last", Edits: in(attemptFile, "	if !now.Before(l.deadline.Add(-l.terms.StopBefore)) {\n		l.cause = TooLate\n		return false\n	}\n", ""), Setup: setup{}},
	{Rule: "a grant counts from its own request", Edits: in(attemptFile, "l.confirm(now, c.Master, r.Process, c.Until)",
		"l.confirm(now, c.Master, r.Process, l.until(now))"), Setup: setup{late: allKinds}},
	{Rule: "a token is written back only where owned", Edits: in(heldFile, "if !there {", "if false && there {"), Setup: setup{clock: lying, fixed: true}},
	{Rule: "a token is written back only to the grant that was read", Edits: in(attemptFile, "case r.Token > l.token && r.Late:", "case false:"),
		Setup: setup{clock: lying, fixed: true, deaths: 1}},
	{Rule: "no script lowers a counter", Edits: in(heldFile, "if !found || counter < token {", "if found || counter < token {"), Setup: setup{clock: lying, bumps: 3, fixed: true}},
	{Rule: "the script counts up, not the client", Edits: slices.Concat(in(acquireFile, "tokenOf(counterAt, counter, carried, seed, mine < names)", "max(tokenOf(counterAt, counter, carried, seed, false), 1)"),
		in(attemptFile, "	for i := range l.votes {\n		if v := &l.votes[i]; v.has(counted) && v.token",
			"	l.token++\n	for i := range l.votes {\n		if v := &l.votes[i]; v.has(counted) && v.token")), Setup: setup{clock: lying, fixed: true, deaths: 1}},
	{Rule: "late grants do not count for the token", Edits: in(attemptFile, "	case r.Token < l.token:\n",
		"	case r.Token < l.token && l.terms.Quorum.Enough(l.countAll()):\n		l.toRaise = 0\n		return e, append(out, Command{Do: Decided})\n	case r.Token < l.token:\n"), Setup: setup{clock: lying, fixed: true}},
	{Rule: "counters start from the clock", Edits: in(acquireFile, "carried, seed, mine < names)", "carried, 0*seed, mine < names)"),
		Setup: setup{tokens: true, ticks: 2, fixed: true, forgets: 1}},
	{Rule: "a release leaves a tombstone", Edits: in(heldFile, `if last != "0" {`, "if false {"), Setup: setup{clock: still, attempts: one, deaths: 1}},

	// The rules of the machine.
	{Rule: "the token is the largest counter that was read", Edits: in(attemptFile, "l.token = max(l.token, v.token)", "l.token = v.token"), Setup: setup{clock: lying, fixed: true}},
	{Rule: "every master that was read confirms the token", Edits: in(attemptFile, "	case r.Token < l.token:\n", "	case false:\n"), Setup: setup{clock: lying, fixed: true}},
	{Rule: "a lost lock is released", Edits: in(keepFile, "Drop(out []Command) []Command { return l.release(0, out) }", "Drop(out []Command) []Command { return out }"),
		Setup: setup{lease: 2, forgets: 1}},
	{Rule: "the deadline is a quorum's", Edits: in(leaseFile, "quorate.Largest(l.terms.Quorum, all)", "quorate.Largest(quorate.Rule{N: len(all), Need: 1}, all)"), Setup: setup{lease: 2}},
	{Rule: "one process is one vote", Edits: in(leaseFile, "other.process == process {", "false {"), Setup: setup{twins: true}},
	{Rule: "a grant of a master that is asked after the probe counts from the first request", Edits: slices.Concat(
		in(attemptFile, "Until: l.until(l.begunAt)", "Until: l.until(l.renewedAt)"),
		in(attemptFile, "	e, answer := Effect{Twin: -1}, r.Is\n", "	e, answer := Effect{Twin: -1}, r.Is\n	l.renewedAt = now\n")),
		Setup: setup{attempts: one, lease: 2, timers: true, fixed: true, probes: true}},
	{Rule: "a renewal counts from its own request", Edits: in(keepFile, "l.confirm(now, c.Master, r.Process, c.Until)\n		e.Counts = e.Twin < 0\n	case Gone",
		"l.confirm(now, c.Master, r.Process, l.until(now))\n		e.Counts = e.Twin < 0\n	case Gone"), Setup: setup{lease: 2, late: allKinds}},
	{Rule: "re-entry prolongs no fixed lease", Edits: in(useFile, "		lease = l.deadline.Sub(now)\n", ""), Setup: setup{attempts: one, lease: 2, fixed: true, depths: 2}},
	{Rule: "an extension asks masters for its own lease", Edits: in(useFile, "Do: Extend, Master: i, Lease: lease,", "Do: Extend, Master: i, Lease: l.terms.Lease,"),
		Setup: setup{maxLease: 2, extends: true, fixed: true}},
	{Rule: "a lock is lost when too few keep it", Edits: in(keepFile, "	if l.phase == Held && !now.Before(l.deadline) {\n		return l.lose", "	if false {\n		return l.lose"),
		Harmless: "The deadline has still passed, so the lock is not valid. The caller learns of it later: when the deadline's timer fires.",
		Setup:    setup{forgets: 1}},
	{Rule: "a renewal does not raise a grant that is denied", Edits: in(leaseFile, "		v.until = clock.Never\n", ""),
		Harmless: "A master that denied the grant was asked after it confirmed: the time to live that it confirmed has passed, or the master is in quarantine for longer. But no repair goes out.",
		Setup:    setup{forgets: 1}},
	{Rule: "a lock is kept until its min hold is over", Edits: in(keepFile, "!(now.Before(l.MinHoldEnd()) && now.Before(l.deadline))", "true"),
		Setup: setup{minHold: 2}},
	{Rule: "a max hold bounds the deadline", Edits: in(leaseFile, "		at = min(at, l.maxHoldEnd)\n", ""), Setup: setup{attempts: one, lease: 2, maxHold: 1}},
	{Rule: "the machine wants to be called no later than at its deadline", Edits: in(keepFile, "!l.terms.Fixed && next.Before(l.next) {", "!l.terms.Fixed {"),
		Setup: setup{attempts: one, lease: 3, timers: true}},
	{Rule: "the machine wants to be called when the contexts end", Edits: in(keepFile, "l.next, l.early = l.ContextsEnd(), 0", "l.next, l.early = l.deadline, 0"),
		Setup: setup{attempts: one, lease: 3, stop: 1, timers: true}},
	{Rule: "contexts end before a deadline that has come nearer", Edits: in(keepFile, "l.hasten(max(l.ContextsEnd(), now))", "l.hasten(max(l.deadline, now))"),
		Setup: setup{attempts: one, lease: 3, stop: 1, timers: true, forgets: 1}},
	{Rule: "contexts end before the deadline", Edits: in(keepFile, "!now.Before(l.ContextsEnd()):", "false:"),
		Setup: setup{attempts: one, lease: 3, stop: 1}},
	{Rule: "no request follows the release", Edits: in(attemptFile, "if l.HasEnded() {", "if false {"),
		Setup: setup{attempts: one, slow: true, forgets: 1}},
	{Rule: "a repair has the depth", Edits: in(keepFile, "Do: Renew, Master: i, Depth: l.depth,", "Do: Renew, Master: i, Depth: 1,"),
		Setup: setup{attempts: one, depths: 2, forgets: 1}},
	{Rule: "a request that goes out again has the present depth", Edits: in(attemptFile, "	c.Depth = l.depth\n", ""),
		Setup: setup{attempts: one, lease: 2, depths: 2, slow: true, forgets: 1}},
	{Rule: "a release goes to masters that have not answered", Edits: in(keepFile, "if l.votes[i].has(mayHold) {", "if l.votes[i].has(mayHold) && l.votes[i].answer != Unanswered {"),
		Setup: setup{clock: still, attempts: one}},
	{Rule: "a refusal after a resend proves nothing", Edits: in(attemptFile, "return !r.Resent", "return true"), Setup: setup{clock: still, deaths: 2}},
	// The rules of quorums.
	{Rule: "a quorum has its size", Edits: in(quorateFile, "s.Len() >= r.Need", "s.Len() >= r.Need-1"), Setup: setup{}},
	{Rule: "a majority is more than half", Edits: in(quorateFile, "nodes/2 + 1}", "(nodes + 1) / 2}"), Setup: setup{weights: true}},
	{Rule: "any two quorums share a master", Edits: in(quorateFile, "s.Len() >= r.Need", "s.Len()+2*int(s&1) >= r.Need"), Setup: setup{weights: true}},
	{Rule: "a master has one vote", Edits: in(quorateFile, "s.Len() >= r.Need", "s.Len()+int(s&1) >= r.Need"), Setup: setup{weights: true},
		Harmless: "It is another rule, as safe: the first of four masters has two of five votes, and three are a quorum."},
	{Rule: "an attempt is won by a quorum", Edits: in(quorateFile, "case r.Enough(granted):", "case granted != 0:"), Setup: setup{clock: lying, fixed: true}},
	{Rule: "a deadline that too few masters reach is none", Edits: in(quorateFile, "if r.Enough(within) {", "if true {"), Setup: setup{lease: 2}},
	// The rules of handing over.
	{Rule: "a lock that is handed over has ended", Edits: in(useFile, "	l.become(Released)\n	l.cause = HandedOver\n", ""), Setup: setup{takes: toSecond, fixed: true}},
	{Rule: "a lock that is handed over is not released", Edits: in(useFile, "return append(out, Command{Do: End, Cause: HandedOver})",
		"return l.release(0, append(out, Command{Do: End, Cause: HandedOver}))"), Setup: setup{attempts: three, takes: toSecond, fixed: true}},
	{Rule: "who takes over replaces the predecessor", Edits: in(acquireFile, "			k.hdel(key, predecessor)\n", ""), Setup: setup{attempts: three, takes: toEither, fixed: true}},
	{Rule: "who takes over is granted only where the predecessor is", Edits: in(acquireFile, "carried == 0 && mine+inherited < names {", "false {"),
		Setup: setup{attempts: three, takes: toEither, fixed: true}},
	{Rule: "to take over is a new grant, which quarantine refuses", Edits: in(acquireFile, "if carried == 0 || mine < names {",
		"if carried == 0 && inherited == 0 || mine+inherited < names {"), Setup: setup{attempts: three, lease: 2, takes: toEither, reverts: 1, fixed: true}},
	{Rule: "who takes over counts the token up", Edits: in(acquireFile, "seed, mine < names)", "seed, mine+inherited < names)"), Setup: setup{clock: lying, takes: toSecond, fixed: true}},
	{Rule: "who takes over bars the predecessor", Edits: slices.Concat(in(acquireFile, `k.maySet(keys[len(keys)-1], "1", maxLeaseOf(expected))`, ""),
		in(acquireFile, `k.callSet(keys[len(keys)-1], "1", maxLeaseOf(expected))`, "")),
		Setup: setup{clock: still, attempts: three, takes: toEither, fixed: true, deaths: 1}},
	{Rule: "a writer waits for readers", Edits: in(acquireFile, "if isRead && ends < k.now {", "if isRead {"), Setup: setup{reads: aReader}},
	{Rule: "a reader waits for a writer", Edits: in(readersFile, "held, holder = ttl, k.oneField(key)", "k.Delete(key)"), Setup: setup{reads: aReader}},
	{Rule: "readers wait for the quarantine of a master that forgot", Edits: in(readersFile, "isItsOwn); refusal != nil {", `isItsOwn); refusal != nil && refusal[0] != "quarantined" {`),
		Setup: setup{lease: 2, reads: aReader, forgets: 1}},
	{Rule: "no repair of a reader into quarantine", Edits: in(readersFile, "if carried == 0 || !isThere {", "if carried == 0 {"),
		Setup: setup{lease: 2, reads: aReader, forgets: 1}},
	{Rule: "readers count the token up", Edits: in(readersFile, "tokenOf(keys[2], counter, carried, seed, !isThere)", "max(tokenOf(keys[2], counter, carried, seed, false), 1)"), Setup: setup{clock: lying, reads: aReader, fixed: true}},
	{Rule: "a reader's release takes it out", Edits: in(readersFile, "	found = k.zrem(key, owner)\n", "	found = true\n"),
		Setup: setup{clock: still, attempts: one, reads: [maxClients]bool{true}}},
	{Rule: "a downgrade leaves no gap", Edits: in(readersFile, "		ends = last\n", "		ends = k.now\n"), Setup: setup{lease: 2, lowers: true}},
	{Rule: "a downgrade does not shorten the hold", Edits: in(readersFile, "k.now + max(ttl, lease)", "k.now + lease"),
		Setup: setup{maxLease: 2, extends: true, lowers: true}},
	{Rule: "a request has the present mode", Edits: in(attemptFile, "!v.has(mayHold), l.mode", "!v.has(mayHold), l.terms.Mode"),
		Setup: setup{attempts: one, lowers: true, fixed: true}},
	{Rule: "a request from before the downgrade denies nothing", Edits: in(keepFile, "return c.Mode == l.mode", "return true"),
		Setup: setup{clock: still, attempts: one, lowers: true, reloads: true}},
	{Rule: "a request that could not be sent proves nothing of one before", Edits: in(keepFile, "case r.Is == Unsent && c.fresh:", "case r.Is == Unsent:"), Setup: setup{clock: still, attempts: one, depths: 2, deaths: 1}},
	// The rules for what happens to a master.
	{Rule: "only a reader's grant ends the downgrade", Edits: in(keepFile, "e.Twin < 0; c.Mode == Read {", "e.Twin < 0; l.mode == Read {"),
		Setup: setup{clock: still, attempts: one, lowers: true, kinds: 1 << itRefuses, refuses: noSets}},
	{Rule: "a key without a time to live gets none", Edits: in(spaceFile, "left != -1 && left < ttl", "left < ttl"),
		Setup: setup{maxLease: 2, extends: true, kinds: 1 << itPersists}},
	{Rule: "a marker is of one process and one database", Edits: in(acquireFile, "return has[0], has[1] == want[1], ", "return has[0], true, "),
		Setup: setup{kinds: 1 << itIsSwapped}},
	{Rule: "who reads again leaves foreign members alone", Edits: in(readersFile, "k.lockAt(key, isStale)", "k.lockAt(key, false)"),
		Setup: setup{clock: still, attempts: one, reads: [maxClients]bool{true}, depths: 2, kinds: 1 << itIsMixed}},
	{Rule: "the last reader's release leaves foreign members alone", Edits: in(readersFile, "		for member := range v.scores {\n			if strings.HasPrefix(member, readerPrefix) {",
		"		for member := range v.scores {\n			if true {"), Setup: setup{clock: still, attempts: one, reads: [maxClients]bool{true}, depths: 2, kinds: 1 << itIsMixed}},
	{Rule: "an error proves nothing if the script may have written", Edits: in("internal/redisconn/replies.go", "if r.nothingDone && begins", "if true || r.nothingDone && begins"),
		Setup: setup{clock: still, attempts: one, kinds: 1 << itRefuses, refuses: fakeredis.Refusals{Forbidden: "SET"}}},
	{Rule: "a request sets the depth", Edits: in(acquireFile, "		k.call(\"HSET\")\n		if need", "		if old, there, _ := k.hget(key, owner); there {\n			level = whole(or(old, 0) + or(level, 0))\n		}\n		k.call(\"HSET\")\n		if need"),
		Setup: setup{clock: still, attempts: one, depths: 2}},
	{Rule: "several names are granted all or none", Edits: in(acquireFile, "	if held {\n		if !byReader", "	if held && locks == names {\n		if !byReader"),
		Setup: setup{names: pair, fixed: true}},
	{Rule: "the token is raised on all names", Edits: in(acquireFile, "if k.Get(counters[i]) != whole(token) {", "if i == 0 && k.Get(counters[i]) != whole(token) {"),
		Setup: setup{clock: lying, names: pair, fixed: true}},
	// The rules of masters that fail over.
	{Rule: "a grant counts once the replicas have it", Edits: in(sealFile, "case acknowledged < s.Replicas:", "case false:"), Setup: setup{single: true, fails: 1, lag: 1, fixed: true}},
	{Rule: "a grant counts once all replicas have it", Edits: in(sealFile, "case acknowledged < s.Replicas:", "case acknowledged < s.Replicas-1:"),
		Setup: setup{single: true, fails: 1, replicas: 2, lag: 1, fixed: true}},
	{Rule: "a renewal counts once the replicas have it", Edits: in(sealFile, "&& !call.IsRelease()", "&& call.IsAcquire()"), Setup: setup{single: true, fails: 1, lag: 1, lease: 2}},
	{Rule: "nothing counts over a connection from before a promotion", Edits: in(sealFile, "|| now[\"master_replid\"] != s.History:", "|| false:"),
		Setup: setup{single: true, fails: 1, lag: 1, promotions: 2, clock: still, fixed: true}},
	{Rule: "a process that is promoted again is another", Edits: in(sealFile, "runID, s.History, s.Replicas)", "runID, \"\", s.Replicas)"),
		Setup: setup{single: true, fails: 1, promotions: 2, atOnce: true, clock: still, fixed: true, forgets: 1}},
	{Rule: "quarantine of a master that was promoted", Edits: in(acquireFile, "isItsOwn); refusal != nil {", `isItsOwn); refusal != nil && refusal[0] != "quarantined" {`), Setup: setup{single: true, fails: 1, lag: 1, clock: still, fixed: true, forgets: 1}},
	{Rule: "a release needs no memory", Edits: in(heldFile, "	names := len(args) - 3\n", "	names := len(args) - 3\n	k.call(\"SET\")\n"), Setup: setup{clock: still, attempts: one, kinds: 1 << itRefuses, refuses: fakeredis.Refusals{Full: true}}},
}

// large are mutants whose traces take minutes to find.
var large = []mutate.Mutant[setup]{
	{Rule: "a write-back counts once the replicas have it", Edits: in(sealFile, "&& !call.IsRelease()", "&& !call.IsRelease() && call.Op() != \"raise\""),
		Setup: setup{fails: 2, lag: 1, atOnce: true, clock: lying, fixed: true}},
	{Rule: "a call that writes nothing needs acknowledgments, too", Edits: in(sealFile, "{\"PUBLISH\", s.Prefix + sealChannel, \"\"}, ", ""),
		Setup: setup{single: true, fails: 1, lag: 1, promotions: 2, skew: -1, lease: 2}},
	{Rule: "no repair into the quarantine of a master that was promoted", Edits: in(acquireFile, "if carried == 0 || mine < names {", "if carried == 0 {"),
		Setup: setup{fails: 1, atOnce: true, lease: 2, forgets: 1}},
}

// countAll is what a mutant calls.
const countAll = `
func (l *Lease) countAll() (all quorate.Set) {
	for i := range l.votes {
		if v := &l.votes[i]; v.answer == Granted && (v.token >= l.token || v.has(counted) && !l.toRaise.Has(i)) {
			all |= quorate.Of(i)
		}
	}
	return all
}
`

var table = &mutate.Table{
	Head: "| rule left out | in | edit | shortest trace |\n|---|---|---|---|\n",
	End:  "<!-- the end of the table -->",
}

func TestMutants(t *testing.T) {
	all := mutants
	if mutate.IsMutant() {
		all = slices.Concat(mutants, large)
	}
	mutate.Run(t, all, map[string]string{attemptFile: countAll}, table, func(s setup) { explore(t, s) })
}

// TestLargeMutants is TestMutants for those that take minutes.
func TestLargeMutants(t *testing.T) {
	visited.Bounded(t, 1, true, func(int) bool {
		mutate.Run(t, large, nil, nil, func(s setup) { explore(t, s) })
		return true
	})
}

// explore searches a setup, and logs what it found.
func explore(t *testing.T, s setup) {
	w := newWorld(s)
	report(t, w, w.explore(visited.Limit))
}

// Without an edit the setups of the mutants have no trace: it is the edit that the search finds.
func TestSetupsOfMutants(t *testing.T) {
	mutate.Setups(t, mutants, func(t *testing.T, s setup) {
		visited.Bounded(t, 2_000_000, false, func(limit int) bool {
			w := newWorld(s)
			found := w.explore(limit)
			if found.broken != kept {
				report(t, w, found)
				t.Error("the setup breaks a promise without the edit")
			}
			return found.Complete
		})
	})
}

// The table in docs/reports/mutants.md has the mutants, as they are.
func TestTable(t *testing.T) { mutate.Check(t, table, mutants) }
