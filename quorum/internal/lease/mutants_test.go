package lease_test

import (
	"slices"
	"testing"

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

var (
	base   = setup{}
	tokens = setup{clock: lying, tokens: true, fixed: true}
	stands = setup{clock: still, attempts: one}
)

// onePair is a master that has a replica.
var onePair = setup{single: true, failover: failover{fails: 1, replicas: 1, wanted: 1, lag: 1, promotions: 1}}

// twoOfThree is three masters, of which two fail over.
var twoOfThree = setup{failover: failover{fails: 2, replicas: 1, wanted: 1, promotions: 1, atOnce: true}}

func hasTwo(s *setup)     { s.replicas, s.wanted = 2, 2 }
func twice(s *setup)      { s.promotions = 2 }
func standsToo(s *setup)  { s.clock, s.fixed = still, true }
func isAtOnce(s *setup)   { s.atOnce, s.lag = true, 0 }
func oneFails(s *setup)   { s.fails = 1 }
func lagsBehind(s *setup) { s.lag = 1 }
func isAhead(s *setup)    { s.skew = 1 }
func isBehind(s *setup)   { s.skew = -1 }
func isLying(s *setup)    { s.clock, s.fixed = lying, true }

// with is a setup with other bounds.
func (s setup) with(change func(*setup)) setup {
	change(&s)
	return s
}

func aDeath(s *setup)     { s.deaths = 1 }
func aForgets(s *setup)   { s.forgets = 1 }
func longer(s *setup)     { s.lease = 2 }
func isExtended(s *setup) { s.maxLease, s.extends = 2, true }
func isFixed(s *setup)    { s.fixed = true }
func readsLate(s *setup)  { s.late = allKinds }
func isEntered(s *setup)  { s.depths = 2 }
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
func stopsEarly(s *setup) { s.lease, s.stop = 3, 1 }
func areFour(s *setup)    { s.weights = true }
func takesOver(s *setup)  { s.takes = toSecond }
func besideOne(s *setup)  { s.attempts, s.takes = three, toSecond }
func takesTwice(s *setup) { s.attempts, s.takes = three, toEither }
func aReverts(s *setup)   { s.reverts = 1 }
func isRead(s *setup)     { s.reads = aReader }
func isLowered(s *setup)  { s.lowers = true }
func reloadsIt(s *setup)  { s.reloads = true }

// aFault is what happens to a master once.
func aFault(what change) func(*setup) {
	return func(s *setup) { s.faults, s.kinds = 1, 1<<what }
}

func isFull(s *setup)      { s.refuses.Full = true; aFault(itRefuses)(s) }
func isForbidden(s *setup) { s.refuses = noSets; aFault(itRefuses)(s) }
func isHalf(s *setup)      { s.refuses.Forbidden = "SET"; aFault(itRefuses)(s) }
func ofPair(s *setup)      { s.names = pair }
func aReadsTwice(s *setup) { s.reads[0], s.depths = true, 2 }

// mutants are small edits of shipped files. Each leaves out one rule. The programs of internal/fakeredis stand for the
// Lua, to which vectors hold them.
var mutants = []mutate.Mutant[setup]{
	// The rules of the old model.
	{Rule: "a fresh owner id for every attempt", Edits: in(namesFile, "strconv.AppendUint(b, number, 10)", "strconv.AppendUint(b, 0*number, 10)"),
		Setup: base.with(standsToo).with(aDeath).with(againFirst)},
	{Rule: "quarantine of a master that forgot", Edits: in(acquireFile, "case left > 0:", "case false:"), Setup: base.with(longer).with(aForgets)},
	{Rule: "no repair into quarantine", Edits: in(acquireFile, "carried == 0 || mine < names, false", "carried == 0, false"),
		Setup: base.with(longer).with(aForgets)},
	{Rule: "a time to live is never shortened", Edits: in(spaceFile, "left != -1 && left < ttl", "left != -1"), Setup: base.with(isExtended)},
	{Rule: "a dead handle is never revived", Edits: in(leaseFile, "if l.Kept() && now.Before(l.deadline) {", "if l.Kept() {"),
		Setup: base.with(longer).with(isDozing)},
	{Rule: "the clock is read last", Edits: in(attemptFile, "	if !now.Before(l.deadline.Add(-l.terms.StopBefore)) {\n		l.cause = TooLate\n		return false\n	}\n", ""), Setup: base},
	{Rule: "a grant counts from its own request", Edits: in(attemptFile, "l.confirm(now, c.Master, r.Process, c.Until)",
		"l.confirm(now, c.Master, r.Process, l.until(now))"), Setup: base.with(readsLate)},
	{Rule: "a token is written back only where owned", Edits: in(heldFile, "!there || err != nil {", "err != nil || false && there {"), Setup: tokens},
	{Rule: "a token is written back only to the grant that was read", Edits: in(attemptFile, "case r.Token > l.token && r.Late:", "case false:"),
		Setup: tokens.with(aDeath)},
	{Rule: "no script lowers a counter", Edits: in(heldFile, "if !found || counter < token {", "if found || counter < token {"), Setup: tokens.with(func(s *setup) { s.bumps = 3 })},
	{Rule: "the script counts up, not the client", Edits: slices.Concat(in(acquireFile, "			token++\n", ""), in(attemptFile, "	for i := range l.votes {\n		if v := &l.votes[i]; v.has(counted) && v.token",
		"	l.token++\n	for i := range l.votes {\n		if v := &l.votes[i]; v.has(counted) && v.token"),
		in(acquireFile, "	if token >= tooHigh {", "	if token = max(token, 1); token >= tooHigh {")), Setup: tokens.with(aDeath)},
	{Rule: "late grants do not count for the token", Edits: in(attemptFile, "	case r.Token < l.token:\n",
		"	case r.Token < l.token && l.terms.Quorum.Enough(l.countAll()):\n		l.toRaise = 0\n		return e, append(out, Command{Do: Decided})\n	case r.Token < l.token:\n"), Setup: tokens},
	{Rule: "counters start from the clock", Edits: in(acquireFile, "token = max(token, seed)", "token = max(token, 0*seed)"),
		Setup: tokens.with(inTwoTicks).with(aForgets)},
	{Rule: "a release leaves a tombstone", Edits: in(heldFile, `if last != "0" {`, "if false {"), Setup: stands.with(aDeath)},

	// The rules of the machine.
	{Rule: "the token is the largest counter that was read", Edits: in(attemptFile, "l.token = max(l.token, v.token)", "l.token = v.token"), Setup: tokens},
	{Rule: "every master that was read confirms the token", Edits: in(attemptFile, "	case r.Token < l.token:\n", "	case false:\n"), Setup: tokens},
	{Rule: "a lost lock is released", Edits: in(keepFile, "Drop(out []Command) []Command { return l.release(0, out) }", "Drop(out []Command) []Command { return out }"),
		Setup: base.with(longer).with(aForgets)},
	{Rule: "the deadline is a quorum's", Edits: in(leaseFile, "quorate.Largest(l.terms.Quorum, all)", "quorate.Largest(quorate.Rule{N: len(all), Need: 1}, all)"), Setup: base.with(longer)},
	{Rule: "one process is one vote", Edits: in(leaseFile, "other.process == process {", "false {"), Setup: base.with(isTwinned)},
	{Rule: "a grant of a master that is asked after the probe counts from the first request", Edits: slices.Concat(
		in(attemptFile, "Until: l.until(l.begunAt)", "Until: l.until(l.renewedAt)"),
		in(attemptFile, "	e, answer := Effect{Twin: -1}, r.Is\n", "	e, answer := Effect{Twin: -1}, r.Is\n	l.renewedAt = now\n")),
		Setup: base.with(probesToo).with(isFixed).with(longer).with(alone).with(isTimed)},
	{Rule: "a renewal counts from its own request", Edits: in(keepFile, "l.confirm(now, c.Master, r.Process, c.Until)\n		e.Counts = e.Twin < 0\n	case Gone",
		"l.confirm(now, c.Master, r.Process, l.until(now))\n		e.Counts = e.Twin < 0\n	case Gone"), Setup: base.with(longer).with(readsLate)},
	{Rule: "re-entry prolongs no fixed lease", Edits: in(useFile, "		lease = l.deadline.Sub(now)\n", ""), Setup: base.with(alone).with(isFixed).with(isEntered).with(longer)},
	{Rule: "an extension asks masters for its own lease", Edits: in(useFile, "Do: Extend, Master: i, Lease: lease,", "Do: Extend, Master: i, Lease: l.terms.Lease,"),
		Setup: base.with(isExtended).with(isFixed)},
	{Rule: "a lock is lost when too few keep it", Edits: in(keepFile, "	if l.phase == Held && !now.Before(l.deadline) {\n		return l.lose", "	if false {\n		return l.lose"),
		Harmless: "The deadline has still passed, so the lock is not valid. The caller learns of it later: when the deadline's timer fires.",
		Setup:    base.with(aForgets)},
	{Rule: "a renewal does not raise a grant that is denied", Edits: in(leaseFile, "		v.until = clock.Never\n", ""),
		Harmless: "A master that denied the grant was asked after it confirmed: the time to live that it confirmed has passed, or the master is in quarantine for longer. But no repair goes out.",
		Setup:    base.with(aForgets)},
	{Rule: "a lock is kept until its min hold is over", Edits: in(keepFile, "!(now.Before(l.MinHoldEnd()) && now.Before(l.deadline))", "true"),
		Setup: base.with(lingersTwo)},
	{Rule: "a max hold bounds the deadline", Edits: in(leaseFile, "		at = min(at, l.maxHoldEnd)\n", ""), Setup: base.with(boundedBy1).with(alone).with(longer)},
	{Rule: "the machine wants to be called no later than at its deadline", Edits: in(keepFile, "!l.terms.Fixed && next.Before(l.next) {", "!l.terms.Fixed {"),
		Setup: base.with(alone).with(isTimed).with(func(s *setup) { s.lease = 3 })},
	{Rule: "the machine wants to be called when the contexts end", Edits: in(keepFile, "l.next, l.early = l.ContextsEnd(), 0", "l.next, l.early = l.deadline, 0"),
		Setup: base.with(alone).with(isTimed).with(stopsEarly)},
	{Rule: "contexts end before a deadline that has come nearer", Edits: in(keepFile, "l.hasten(max(l.ContextsEnd(), now))", "l.hasten(max(l.deadline, now))"),
		Setup: base.with(alone).with(isTimed).with(aForgets).with(stopsEarly)},
	{Rule: "contexts end before the deadline", Edits: in(keepFile, "!now.Before(l.ContextsEnd()):", "false:"),
		Setup: base.with(alone).with(stopsEarly)},
	{Rule: "no request follows the release", Edits: in(attemptFile, "if l.HasEnded() {", "if false {"),
		Setup: base.with(alone).with(aForgets).with(isSlow)},
	{Rule: "a repair has the depth", Edits: in(keepFile, "Do: Renew, Master: i, Depth: l.depth,", "Do: Renew, Master: i, Depth: 1,"),
		Setup: base.with(alone).with(aForgets).with(isEntered)},
	{Rule: "a request that goes out again has the present depth", Edits: in(attemptFile, "	c.Depth = l.depth\n", ""),
		Setup: base.with(alone).with(longer).with(aForgets).with(isSlow).with(isEntered)},
	{Rule: "a release goes to masters that have not answered", Edits: in(keepFile, "if l.votes[i].has(mayHold) {", "if l.votes[i].has(mayHold) && l.votes[i].answer != Unanswered {"),
		Setup: stands},
	{Rule: "a refusal after a resend proves nothing", Edits: in(attemptFile, "return !r.Resent", "return true"), Setup: setup{clock: still, deaths: 2}},
	// The rules of quorums.
	{Rule: "a quorum has its size", Edits: in(quorateFile, "s.Len() >= r.Need", "s.Len() >= r.Need-1"), Setup: base},
	{Rule: "a majority is more than half", Edits: in(quorateFile, "nodes/2 + 1}", "(nodes + 1) / 2}"), Setup: base.with(areFour)},
	{Rule: "any two quorums share a master", Edits: in(quorateFile, "s.Len() >= r.Need", "s.Len()+2*int(s&1) >= r.Need"), Setup: base.with(areFour)},
	{Rule: "a master has one vote", Edits: in(quorateFile, "s.Len() >= r.Need", "s.Len()+int(s&1) >= r.Need"), Setup: base.with(areFour),
		Harmless: "It is another rule, as safe: the first of four masters has two of five votes, and three are a quorum."},
	{Rule: "an attempt is won by a quorum", Edits: in(quorateFile, "case r.Enough(granted):", "case granted != 0:"), Setup: tokens},
	{Rule: "a deadline that too few masters reach is none", Edits: in(quorateFile, "if r.Enough(within) {", "if true {"), Setup: base.with(longer)},
	// The rules of handing over.
	{Rule: "a lock that is handed over has ended", Edits: in(useFile, "	l.become(Released)\n	l.cause = HandedOver\n", ""), Setup: base.with(isFixed).with(takesOver)},
	{Rule: "a lock that is handed over is not released", Edits: in(useFile, "return true, append(out, Command{Do: End, Cause: HandedOver})",
		"return true, l.release(0, append(out, Command{Do: End, Cause: HandedOver}))"), Setup: base.with(isFixed).with(besideOne)},
	{Rule: "who takes over replaces the predecessor", Edits: in(acquireFile, "			k.hdel(key, predecessor)\n", ""), Setup: base.with(isFixed).with(takesTwice)},
	{Rule: "who takes over is granted only where the predecessor is", Edits: in(acquireFile, "carried == 0 && mine+inherited < names {", "false {"),
		Setup: base.with(isFixed).with(takesTwice)},
	{Rule: "to take over is a new grant, which quarantine refuses", Edits: in(acquireFile, "carried == 0 || mine < names, false",
		"carried == 0 && inherited == 0 || mine+inherited < names, false"), Setup: base.with(longer).with(isFixed).with(takesTwice).with(aReverts)},
	{Rule: "who takes over counts the token up", Edits: in(acquireFile, "if mine < names {", "if mine+inherited < names {"), Setup: tokens.with(takesOver)},
	{Rule: "who takes over bars the predecessor", Edits: in(acquireFile, "		k.set(keys[len(keys)-1], \"1\", millis(strings.Fields(expected)[2]))\n", ""),
		Setup: stands.with(isFixed).with(takesTwice).with(aDeath)},
	{Rule: "a writer waits for readers", Edits: in(acquireFile, "if isRead && ends < k.now {", "if isRead {"), Setup: base.with(isRead)},
	{Rule: "a reader waits for a writer", Edits: in(readersFile, "held, holder = ttl, k.oneField(key)", "k.delete(key)"), Setup: base.with(isRead)},
	{Rule: "readers wait for the quarantine of a master that forgot", Edits: in(readersFile, "case left > 0:", "case false:"),
		Setup: base.with(longer).with(aForgets).with(isRead)},
	{Rule: "no repair of a reader into quarantine", Edits: in(readersFile, "carried == 0 || !isThere, false", "carried == 0, false"),
		Setup: base.with(longer).with(aForgets).with(isRead)},
	{Rule: "readers count the token up", Edits: in(readersFile, "			token++\n", "			token = max(token, 1)\n"), Setup: tokens.with(isRead)},
	{Rule: "a reader's release takes it out", Edits: in(readersFile, "	found = k.zrem(key, owner)\n", "	found = true\n"),
		Setup: stands.with(func(s *setup) { s.reads[0] = true })},
	{Rule: "a downgrade leaves no gap", Edits: in(readersFile, "		ends = last\n", "		ends = k.now\n"), Setup: base.with(longer).with(isLowered)},
	{Rule: "a downgrade does not shorten the hold", Edits: in(readersFile, "k.now + max(ttl, lease)", "k.now + lease"),
		Setup: base.with(isExtended).with(isLowered)},
	{Rule: "a request has the present mode", Edits: in(attemptFile, "!v.has(mayHold), l.mode", "!v.has(mayHold), l.terms.Mode"),
		Setup: base.with(alone).with(isLowered).with(isFixed)},
	{Rule: "a request from before the downgrade denies nothing", Edits: in(keepFile, "return c.Mode == l.mode", "return true"),
		Setup: stands.with(isLowered).with(reloadsIt)},
	{Rule: "a request that could not be sent proves nothing of one before", Edits: in(keepFile, "if c.fresh {", "if true {"), Setup: stands.with(aDeath).with(isEntered)},
	// The rules for what happens to a master.
	{Rule: "only a reader's grant ends the downgrade", Edits: in(keepFile, "e.Twin < 0; c.Mode == Read {", "e.Twin < 0; l.mode == Read {"),
		Setup: stands.with(isLowered).with(isForbidden)},
	{Rule: "a key without a time to live gets none", Edits: in(spaceFile, "left != -1 && left < ttl", "left < ttl"),
		Setup: base.with(isExtended).with(aFault(itPersists))},
	{Rule: "a marker is of one process and one database", Edits: in(acquireFile, "return has[0], has[1] == want[1], ", "return has[0], true, "),
		Setup: base.with(aFault(itIsSwapped))},
	{Rule: "who reads again leaves foreign members alone", Edits: in(readersFile, "k.lockOf(key, isStale)", "k.lockOf(key, false)"),
		Setup: stands.with(aReadsTwice).with(aFault(itIsMixed))},
	{Rule: "the last reader's release leaves foreign members alone", Edits: in(readersFile, "		for member := range v.scores {\n			if strings.HasPrefix(member, readerPrefix) {",
		"		for member := range v.scores {\n			if true {"), Setup: stands.with(aReadsTwice).with(aFault(itIsMixed))},
	{Rule: "an error proves nothing if the script may have written", Edits: in("internal/redisconn/replies.go", "if r.nothingDone && begins", "if true || r.nothingDone && begins"),
		Setup: stands.with(isHalf)},
	{Rule: "a request sets the depth", Edits: in(acquireFile, "		k.call(\"HSET\")\n		if need", "		if old, there, _ := k.hget(key, owner); there {\n			level = whole(or(old, 0) + or(level, 0))\n		}\n		k.call(\"HSET\")\n		if need"),
		Setup: stands.with(isEntered)},
	{Rule: "several names are granted all or none", Edits: in(acquireFile, "	if held {\n		if holder", "	if held && locks == names {\n		if holder"),
		Setup: base.with(isFixed).with(ofPair)},
	{Rule: "the token is raised on all names", Edits: in(acquireFile, "text != whole(token) {", "i == 0 && text != whole(token) {"),
		Setup: tokens.with(ofPair)},
	// The rules of masters that fail over.
	{Rule: "a grant counts once the replicas have it", Edits: in(sealFile, "case acknowledged < s.Replicas:", "case false:"), Setup: onePair.with(isFixed)},
	{Rule: "a grant counts once all replicas have it", Edits: in(sealFile, "case acknowledged < s.Replicas:", "case acknowledged < s.Replicas-1:"),
		Setup: onePair.with(isFixed).with(hasTwo)},
	{Rule: "a renewal counts once the replicas have it", Edits: in(sealFile, "&& !call.IsRelease()", "&& call.IsAcquire()"), Setup: onePair.with(longer)},
	{Rule: "nothing counts over a connection from before a promotion", Edits: in(sealFile, "|| now[\"master_replid\"] != s.History:", "|| false:"),
		Setup: onePair.with(standsToo).with(twice)},
	{Rule: "a process that is promoted again is another", Edits: in(sealFile, "runID, s.History, s.Replicas)", "runID, \"\", s.Replicas)"),
		Setup: onePair.with(standsToo).with(twice).with(aForgets).with(isAtOnce)},
	{Rule: "quarantine of a master that was promoted", Edits: in(acquireFile, "case left > 0:", "case false:"), Setup: onePair.with(standsToo).with(aForgets)},
	{Rule: "a release needs no memory", Edits: in(heldFile, "	names := len(args) - 3\n", "	names := len(args) - 3\n	k.call(\"SET\")\n"), Setup: stands.with(isFull)},
}

// large are mutants whose traces take minutes to find.
var large = []mutate.Mutant[setup]{
	{Rule: "a write-back counts once the replicas have it", Edits: in(sealFile, "&& !call.IsRelease()", "&& !call.IsRelease() && call.Op() != \"raise\""),
		Setup: twoOfThree.with(isLying).with(lagsBehind)},
	{Rule: "a call that writes nothing needs acknowledgments, too", Edits: in(sealFile, "{\"PUBLISH\", s.Prefix + sealChannel, \"\"}, ", ""),
		Setup: onePair.with(longer).with(isBehind).with(twice)},
	{Rule: "no repair into the quarantine of a master that was promoted", Edits: in(acquireFile, "carried == 0 || mine < names, false", "carried == 0, false"),
		Setup: twoOfThree.with(longer).with(aForgets).with(oneFails)},
}

// countAll is what a mutant calls.
const countAll = `
func (l *Lease) countAll() (all quorate.Set) {
	for i := range l.votes {
		if v := &l.votes[i]; v.answer == Granted && (v.token >= l.token || v.has(counted) && !v.has(behind)) {
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
