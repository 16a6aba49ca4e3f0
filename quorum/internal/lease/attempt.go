package lease

import (
	"math/bits"

	"github.com/quorumlock/quorumlock/clock"
)

// Verdict is what the answers to an attempt mean.
type Verdict uint8

const (
	Open   Verdict = iota
	Won            // a quorum has granted
	Lost           // a quorum cannot grant any more
	Beaten         // the probe master has refused: no others were asked
)

// Wave is which masters an attempt asks first.
type Wave struct {
	Order []int // all masters, in the order in which they are asked
	Size  int   // how many of them the first wave has
	// Probe: the first wave is one master, whose refusal ends the attempt. It has cost one command.
	Probe bool
	// Down is the masters, bit by master, that would not take the request. Permanent is those of
	// them whose error does not pass by itself.
	Down, Permanent uint64
}

// Begin asks the first wave. It asks nobody if so many masters are down that no quorum is left.
func (l *Lease) Begin(now clock.Instant, w Wave, out []Command) []Command {
	l.begunAt, l.renewedAt = now, now
	l.first, l.probing = uint8(w.Size), w.Probe
	for k, master := range w.Order {
		l.votes[k].order = uint8(master)
	}
	if judge(len(l.votes), l.terms.Need, 0, bits.OnesCount64(w.Down)) == Lost {
		for i := range l.votes {
			if w.Down&(1<<i) != 0 {
				l.votes[i].answer = Failed
			}
			if w.Permanent&(1<<i) != 0 {
				l.votes[i].set(permanents)
			}
		}
		return l.judge(out)
	}
	for range w.Size {
		out = l.askNext(out)
	}
	return l.judge(out)
}

// HasSecondWave reports whether masters are left that were not asked.
func (l *Lease) HasSecondWave() bool { return int(l.asked) < len(l.votes) }

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

// AskWhetherPermanent asks the masters that were not asked, of an attempt that is lost with an error
// that their answers can make permanent: a retry cannot succeed then, and the caller must be told
// so. [Cleared] follows once no answer can make a difference, unless none can now.
func (l *Lease) AskWhetherPermanent(out []Command) (unclear bool, _ []Command) {
	if l.phase != Asking || l.verdict != Lost || !l.unclear() {
		return false, out
	}
	return true, l.askAll(out)
}

// IsUnclear reports whether answers to come can make the attempt's error permanent.
func (l *Lease) IsUnclear() bool { return l.phase == Asking && l.verdict == Lost && l.unclear() }

func (l *Lease) unclear() bool {
	permanent, open := 0, 0
	for i := range l.votes {
		switch v := &l.votes[i]; {
		case v.answer == Unasked || v.answer == Unanswered:
			open++
		case v.has(permanents):
			permanent++
		}
	}
	return Unclear(len(l.votes), l.terms.Need, permanent, open)
}

// Unclear reports whether so many permanent errors leave enough masters, but no longer do if those
// that are open answer with one, too.
func Unclear(masters, need, permanent, open int) bool {
	usable := masters - permanent
	return permanent > 0 && usable >= need && usable-open < need
}

func (l *Lease) askAll(out []Command) []Command {
	for l.HasSecondWave() {
		out = l.askNext(out)
	}
	return out
}

func (l *Lease) askNext(out []Command) []Command {
	if !l.HasSecondWave() {
		return out
	}
	master := int(l.votes[l.asked].order)
	l.asked++
	v := &l.votes[master]
	if v.answer != Unasked { // it was down when the attempt began
		return out
	}
	v.answer = Unanswered
	return append(out, l.send(Command{Do: Ask, Master: master, Level: 1, Lease: l.terms.Lease, Until: l.until(l.begunAt)}))
}

// send notes that a request goes out which may make a grant.
func (l *Lease) send(c Command) Command {
	v := &l.votes[c.Master]
	c.fresh = !v.has(mayHold)
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

// judge judges the answers so far, and asks further masters where they call for it.
func (l *Lease) judge(out []Command) []Command {
	for l.phase == Asking && l.verdict == Open {
		of := l.Count()
		l.verdict = judge(len(l.votes), l.terms.Need, of[Granted], of[Refused]+of[Quarantined]+of[Failed])
		switch {
		case l.verdict == Won:
			return l.settle(out)
		case l.verdict == Lost:
			return append(out, Command{Do: Decided})
		case !l.HasSecondWave():
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
		return Lost
	default:
		return Open
	}
}

// settle chooses the token, which is the largest counter among the grants that were read when the
// quorum was reached, and raises those that stand lower. Every one of them must confirm: the grants
// that count are exactly as many as the quorum size. A later grant counts for the deadline only.
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
			l.raises++
			out = append(out, Command{Do: Raise, Master: i})
		}
	}
	l.raised = l.raises
	if l.raises == 0 {
		out = append(out, Command{Do: Decided})
	}
	return out
}

// answered takes an answer to the request for a grant.
func (l *Lease) answered(now clock.Instant, c Command, r Reply, out []Command) (Outcome, []Command) {
	v := &l.votes[c.Master]
	o := Outcome{Answer: r.Is, Twin: -1}
	switch r.Is {
	case NotAccepted:
		if !v.has(resubmit) {
			return o, l.submit(c, r, out)
		}
		v.clear(resubmit) // the master's marker changes under us
		o.Answer = Failed
	case Unsent:
		o.Answer = Failed
		if c.fresh {
			v.clear(mayHold)
		}
	case Barred:
		o.Answer = Refused
	case Granted:
		v.token = r.Token
		if o.Twin = l.confirm(now, c.Master, r.Process, c.Until); o.Twin >= 0 {
			o.Answer = Failed
		}
	}
	o.Counts = o.Answer == Granted
	if l.phase != Asking && l.phase != Settling {
		return o, l.review(now, r, out)
	}
	v.answer = o.Answer
	if r.Permanent || o.Twin >= 0 {
		v.set(permanents)
	}
	if provesNothingDone(r) {
		v.clear(mayHold)
	}
	unclear := l.IsUnclear()
	out = l.judge(out)
	if unclear && !l.IsUnclear() {
		out = append(out, Command{Do: Cleared})
	}
	return o, out
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

// submit has the client's list of masters submitted to a master that does not accept this client, once
// for a request.
func (l *Lease) submit(c Command, r Reply, out []Command) []Command {
	v := &l.votes[c.Master]
	v.set(resubmit)
	if (l.phase == Asking || l.phase == Settling) && !r.Resent {
		v.clear(mayHold)
	}
	again := c
	again.Do, again.Again = Submit, c.Do
	return append(out, again)
}

// Submitted sends a request again, to a master that accepts this client now, with the level that the
// lock has now. It returns false after a release, which no request follows: the request has failed then.
func (l *Lease) Submitted(c Command, out []Command) (bool, []Command) {
	if l.HasEnded() {
		return false, out
	}
	again := c
	again.Do, again.Level = c.Again, l.level
	return true, append(out, l.send(again))
}

// wroteBack takes an answer to Raise. The owner must still hold by the grant that was read. It does
// where its request went out once, since no other attempt uses that owner, however high neighbours
// have raised the counter. A request that was resent may have been granted again, after another
// owner and above it: then the counter is above the token.
func (l *Lease) wroteBack(c Command, r Reply, out []Command) (Outcome, []Command) {
	v, o := &l.votes[c.Master], Outcome{Answer: r.Is, Twin: -1}
	if l.phase != Settling || l.cause != NoCause || !v.has(behind) {
		return o, out
	}
	switch {
	case r.Is == Failed || r.Is == Unsent:
		o.Cause = RaiseFailed
	case r.Token < l.token:
		o.Cause = NotRaised
	case r.Token > l.token && r.Late:
		o.Cause = MovedOn
	default:
		v.clear(behind)
		if l.raises--; l.raises > 0 {
			return o, out
		}
	}
	l.cause = o.Cause
	return o, append(out, Command{Do: Decided})
}

// IsSettled reports whether the token stands on the masters that were read, so that Hold may follow.
func (l *Lease) IsSettled() bool { return l.phase == Settling && l.raises == 0 && l.cause == NoCause }

// Hold makes a lease that is settled a held lock, unless its deadline has passed: reading the clock
// is the last step of an attempt. Where it returns false, Cause says why.
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
