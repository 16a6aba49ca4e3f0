package lease

import (
	"math/bits"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
)

// Verdict is what the replies to an attempt's requests mean.
type Verdict uint8

const (
	Open       Verdict = iota
	Won                // a quorum has granted
	OutOfReach         // too few masters are left that can grant
	Beaten             // the probe master has refused: no others were asked
)

// Wave is which masters an attempt asks first.
type Wave struct {
	Order []int // all masters, in the order in which they are asked
	Size  int   // how many of them the first wave has
	// Probe: the first wave is one master, whose refusal ends the attempt, at the cost of one command.
	Probe bool
	// Down has the masters to which no request can be sent now, bit by master. Permanent has those of
	// them whose error does not pass by itself.
	Down, Permanent uint64
}

// Begin asks the first wave. It asks nobody if so many masters are down that no quorum is left.
func (l *Lease) Begin(now clock.Instant, w Wave, out []Command) []Command {
	l.begunAt, l.renewedAt = now, now
	l.first, l.probing = uint8(w.Size), w.Probe
	for k, master := range w.Order {
		l.votes[master].place = uint8(k)
	}
	if judge(len(l.votes), l.terms.Need, 0, bits.OnesCount64(w.Down)) == OutOfReach {
		for i := range l.votes {
			if w.Down&(1<<i) != 0 {
				l.votes[i].answer = Failed
			}
			if w.Permanent&(1<<i) != 0 {
				l.votes[i].set(failsForGood)
			}
		}
		return l.judge(out)
	}
	return l.judge(out) // asks them
}

// HasUnasked reports whether masters are left that were not asked for a grant.
func (l *Lease) HasUnasked() bool { return int(l.asked) < len(l.votes) }

// SecondWave asks all masters that were not asked, of an attempt that is open, or a lock that is
// valid. It does nothing for others.
func (l *Lease) SecondWave(now clock.Instant, out []Command) []Command {
	switch {
	case l.phase == Asking && l.verdict == Open:
		return l.judge(l.askAll(out))
	case l.phase == Settling, l.Kept() && now.Before(l.deadline):
		return l.askAll(out)
	}
	return out
}

// AskWhetherPermanent asks the masters that were not asked, if the attempt cannot succeed and their
// replies can make its error permanent: then a retry cannot succeed either, and the caller must be
// told so. [Cleared] follows once no reply can make a difference, unless none can now.
func (l *Lease) AskWhetherPermanent(out []Command) (unclear bool, _ []Command) {
	if l.phase != Asking || l.verdict != OutOfReach || !l.unclear() {
		return false, out
	}
	return true, l.askAll(out)
}

// IsUnclear reports whether replies to come can make the attempt's error permanent.
func (l *Lease) IsUnclear() bool { return l.phase == Asking && l.verdict == OutOfReach && l.unclear() }

func (l *Lease) unclear() bool {
	permanent, open := 0, 0
	for i := range l.votes {
		switch v := &l.votes[i]; {
		case v.answer == Unasked || v.answer == Unanswered:
			open++
		case v.has(failsForGood):
			permanent++
		}
	}
	return Unclear(len(l.votes), l.terms.Need, permanent, open)
}

// Unclear reports whether so many permanent errors leave enough masters, but would not if those
// that are open had one, too.
func Unclear(masters, need, permanent, open int) bool {
	usable := masters - permanent
	return permanent > 0 && usable >= need && usable-open < need
}

func (l *Lease) askAll(out []Command) []Command {
	for l.HasUnasked() {
		out = l.askNext(out)
	}
	return out
}

func (l *Lease) askNext(out []Command) []Command {
	if !l.HasUnasked() {
		return out
	}
	master := slices.IndexFunc(l.votes, func(v Vote) bool { return v.place == l.asked })
	l.asked++
	v := &l.votes[master]
	if v.answer != Unasked { // it was down when the attempt began
		return out
	}
	v.answer = Unanswered
	return append(out, l.noteRequest(Command{Do: Ask, Master: master, Level: 1, Lease: l.terms.Lease, Until: l.until(l.begunAt)}))
}

// noteRequest records that a request goes out which may be granted.
func (l *Lease) noteRequest(c Command) Command {
	v := &l.votes[c.Master]
	c.fresh, c.Mode = !v.has(mayHold), l.mode
	v.set(mayHold)
	return c
}

// Counts is how many masters gave each answer to the request for a grant.
type Counts [Unsent + 1]int

func (l *Lease) Count() (of Counts) {
	for i := range l.votes {
		of[l.votes[i].answer]++
	}
	return of
}

// judge judges the replies so far, and asks further masters if they call for it.
func (l *Lease) judge(out []Command) []Command {
	for l.phase == Asking && l.verdict == Open {
		of := l.Count()
		denied := len(l.votes) - of[Unasked] - of[Unanswered] - of[Granted]
		l.verdict = judge(len(l.votes), l.terms.Need, of[Granted], denied)
		switch {
		case l.verdict == Won:
			return l.settle(out)
		case l.verdict == OutOfReach:
			return append(out, Command{Do: Decided})
		case !l.HasUnasked():
			return out
		case l.probing && of[Refused] > 0:
			l.verdict = Beaten
			return append(out, Command{Do: Decided})
		case of[Unanswered]+of[Granted]+of[Refused] < int(l.first): // one has failed, or is in quarantine
			out = l.askNext(out)
		case of[Unanswered] == 0:
			out = l.askAll(out)
		default:
			return out
		}
	}
	return out
}

// judge returns the verdict on an attempt: granted and denied count the masters that granted, and
// those that refused or failed.
func judge(masters, need, granted, denied int) Verdict {
	switch {
	case granted >= need:
		return Won
	case masters-denied < need:
		return OutOfReach
	default:
		return Open
	}
}

// settle chooses the token: the largest counter among the grants that were read when the quorum was
// reached. It raises those that stand lower. All of them must confirm, since the grants that count are
// exactly as many as the quorum size. A later grant counts for the deadline only.
func (l *Lease) settle(out []Command) []Command {
	l.become(Settling)
	for i := range l.votes {
		if v := &l.votes[i]; v.answer == Granted {
			v.set(counted)
			l.token = max(l.token, v.token)
		}
	}
	for i := range l.votes {
		if v := &l.votes[i]; v.has(counted) && v.token < l.token {
			v.set(behind)
			l.toRaise++
			out = append(out, Command{Do: Raise, Master: i})
		}
	}
	l.writeBacks = l.toRaise
	if l.toRaise == 0 {
		out = append(out, Command{Do: Decided})
	}
	return out
}

// takeGrantReply takes a reply to Ask.
func (l *Lease) takeGrantReply(now clock.Instant, c Command, r Reply, out []Command) (Effect, []Command) {
	v := &l.votes[c.Master]
	e, answer := Effect{Twin: -1}, r.Is
	switch r.Is {
	case NotAccepted:
		if !v.has(submitted) {
			return e, l.submit(c, r, out)
		}
		v.clear(submitted) // the master's marker changes under us
		answer = Failed
	case Unsent:
		answer = Failed
		if c.fresh {
			v.clear(mayHold)
		}
	case Barred:
		answer = Refused
	case Granted:
		v.token = r.Token
		if e.Twin = l.confirm(now, c.Master, r.Process, c.Until); e.Twin >= 0 {
			answer = Failed
		}
		e.Counts = e.Twin < 0
	}
	if l.phase != Asking && l.phase != Settling {
		return e, l.review(now, r, out)
	}
	unclear := l.IsUnclear()
	v.answer = answer
	if r.Permanent || e.Twin >= 0 {
		v.set(failsForGood)
	}
	if provesNothingDone(r) {
		v.clear(mayHold)
	}
	out = l.judge(out)
	if unclear && !l.IsUnclear() {
		out = append(out, Command{Do: Cleared})
	}
	return e, out
}

// provesNothingDone reports whether nothing of the owner's can be on the master, now or later.
func provesNothingDone(r Reply) bool {
	switch r.Is {
	case Failed:
		return r.NothingDone
	case Refused, Barred, Quarantined:
		return !r.Resent
	}
	return false
}

// submit has the client's list submitted to a master that does not accept the client, once per
// request.
func (l *Lease) submit(c Command, r Reply, out []Command) []Command {
	v := &l.votes[c.Master]
	v.set(submitted)
	if (l.phase == Asking || l.phase == Settling) && !r.Resent {
		v.clear(mayHold)
	}
	return append(out, Command{Do: Submit, Master: c.Master})
}

// Submitted returns a request as it goes out again, to a master that accepts this client now. It
// returns false after a release, which no request follows: the request has failed then.
func (l *Lease) Submitted(c Command) (again Command, goesOn bool) {
	if l.HasEnded() {
		return c, false
	}
	c.Level = l.level
	return l.noteRequest(c), true
}

// takeRaiseReply takes a reply to Raise. The owner must still hold by the grant that was read. It does
// if its request went out once: no other attempt uses that owner, however high neighbours have raised
// the counter. A request that was resent may have been granted again, after another owner and above
// it: then the counter is above the token.
func (l *Lease) takeRaiseReply(c Command, r Reply, out []Command) (Effect, []Command) {
	v, e := &l.votes[c.Master], Effect{Twin: -1}
	if l.phase != Settling || l.cause != NoCause || !v.has(behind) {
		return e, out
	}
	switch {
	case r.Is == Failed || r.Is == Unsent:
		e.Cause = RaiseFailed
	case r.Token < l.token:
		e.Cause = NotRaised
	case r.Token > l.token && r.Late:
		e.Cause = MovedOn
	default:
		v.clear(behind)
		if l.toRaise--; l.toRaise > 0 {
			return e, out
		}
	}
	l.cause = e.Cause
	return e, append(out, Command{Do: Decided})
}

// IsSettled reports whether the token stands on the masters that were read, so that Hold may follow.
func (l *Lease) IsSettled() bool { return l.phase == Settling && l.toRaise == 0 && l.cause == NoCause }

// Hold makes a lease that is settled a held lock, unless its deadline has passed: reading the clock
// is the last step of an attempt. If it returns false, Cause says why.
func (l *Lease) Hold(now clock.Instant) bool {
	if !l.IsSettled() {
		return false
	}
	if l.terms.MaxHold > 0 {
		l.maxHoldEnd = l.begunAt.Add(l.terms.MaxHold)
	}
	l.deadline = l.reckon()
	if !now.Before(l.deadline) {
		l.cause = TooLate
		return false
	}
	l.become(Held)
	l.plan(l.renewedAt)
	return true
}

// GiveUp ends an attempt that has not become a lock: a release goes to each master that may have
// granted.
func (l *Lease) GiveUp(out []Command) []Command {
	l.become(Undone)
	return l.release(0, out)
}
