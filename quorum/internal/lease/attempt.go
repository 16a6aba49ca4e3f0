package lease

import (
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
)

// Verdict is what the replies to an attempt's requests mean.
type Verdict uint8

const (
	Open       = Verdict(quorate.Open)
	Won        = Verdict(quorate.Won)  // a quorum has granted
	OutOfReach = Verdict(quorate.Lost) // too few masters are left that can grant
	Beaten     = OutOfReach + 1        // the probe master has refused: no others were asked
)

// Plan is how an attempt begins.
type Plan struct {
	First int // the master that is asked first; the others follow in their order
	// Probe: the first master is asked alone. Its refusal ends the attempt, at the cost of one command.
	Probe bool
	Down  quorate.Set // the masters to which no request can be sent now
	// Permanent: one of these has a permanent error. Then the others are asked in any case: their errors may make the
	// attempt's permanent.
	Permanent bool
}

// Begin asks all masters, or the first one alone. It asks nobody if too many masters are down for a
// quorum, unless one's error is permanent.
func (l *Lease) Begin(now clock.Instant, p Plan, out []Command) []Command {
	l.begunAt, l.renewedAt = now, now
	l.first = uint8(p.First)
	switch tooFew := l.terms.Quorum.Blocks(p.Down); {
	case tooFew && !p.Permanent:
		for i := range l.votes {
			if p.Down.Has(i) {
				l.votes[i].answer = Failed
			}
		}
	case !p.Probe || tooFew:
		out = l.askAll(out)
	}
	return l.judge(out)
}

// AskOthers asks the masters that were not asked, because the probe master does not answer. It does
// nothing if the outcome is certain.
func (l *Lease) AskOthers(out []Command) []Command {
	if l.phase == Asking && l.verdict == Open {
		out = l.judge(l.askAll(out))
	}
	return out
}

func (l *Lease) askAll(out []Command) []Command {
	for l.HasUnasked() {
		out = l.askNext(out)
	}
	return out
}

// HasUnasked reports whether masters are left that were not asked for a grant.
func (l *Lease) HasUnasked() bool { return int(l.asked) < len(l.votes) }

// askNext asks the next master.
func (l *Lease) askNext(out []Command) []Command {
	master := int(l.first+l.asked) % len(l.votes)
	l.asked++
	l.votes[master].answer = Unanswered
	return append(out, l.noteRequest(Command{Do: Ask, Master: master, Depth: 1, Lease: l.terms.Lease, Until: l.until(l.begunAt)}))
}

// noteRequest records that a request goes out which may be granted.
func (l *Lease) noteRequest(c Command) Command {
	v := &l.votes[c.Master]
	c.fresh, c.Mode = !v.has(mayHold), l.mode
	v.set(mayHold)
	return c
}

// Answers has the masters that gave each answer to the request for a grant.
type Answers [Unsent + 1]quorate.Set

func (l *Lease) Answers() (of Answers) {
	for i := range l.votes {
		of[l.votes[i].answer] |= quorate.Of(i)
	}
	return of
}

// judge judges the replies so far. It asks further masters once the probe master has replied.
func (l *Lease) judge(out []Command) []Command {
	for l.verdict == Open {
		of := l.Answers()
		l.verdict = Verdict(l.terms.Quorum.Judge(of[Granted], of[Unasked]|of[Unanswered]))
		switch {
		case l.verdict == Won:
			return l.settle(out)
		case l.verdict == OutOfReach:
			return append(out, Command{Do: Decided})
		case !l.HasUnasked():
			return out
		case of[Refused] != 0:
			l.verdict = Beaten
			return append(out, Command{Do: Decided})
		case of[Granted] != 0:
			out = l.askAll(out)
		case of[Unanswered] == 0: // the probe master has failed, or is in quarantine: the next one replaces it
			out = l.askNext(out)
		default:
			return out
		}
	}
	return out
}

// settle chooses the token: the largest counter among the grants that were read when the quorum was reached. It
// raises the lower ones. All of them must confirm, since the grants that count are exactly a quorum. A later grant
// counts for the deadline only.
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
			l.toRaise |= quorate.Of(i)
			out = append(out, Command{Do: Raise, Master: i})
		}
	}
	l.writeBacks = l.toRaise.Len()
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
		v.clear(submitted) // the master's marker changes under us
		answer = Failed
	case Unsent:
		answer = Failed
	case Barred:
		answer = Refused
	case Granted:
		v.token = r.Token
		if e.Twin = l.confirm(now, c.Master, r.Process, c.Until); e.Twin >= 0 {
			answer = Failed
		}
	}
	if l.phase != Asking && l.phase != Settling {
		return e, l.review(now, r, out)
	}
	v.answer = answer
	if provesNothingDone(r) {
		v.clear(mayHold)
	}
	return e, l.judge(out)
}

// provesNothingDone reports whether the owner has nothing on the master, now or later.
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
	c.Depth = l.depth
	return l.noteRequest(c), true
}

// takeRaiseReply takes a reply to Raise. The owner must still hold by the grant that was read. It does if its request
// went out once: no other attempt uses that owner, however high neighbours have raised the counter. A resent request
// may have been granted again, after another owner and with a higher counter than the token.
func (l *Lease) takeRaiseReply(c Command, r Reply, out []Command) (Effect, []Command) {
	e := Effect{Twin: -1}
	if l.cause != NoCause {
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
		if l.toRaise &^= quorate.Of(c.Master); l.toRaise != 0 {
			return e, out
		}
	}
	l.cause = e.Cause
	return e, append(out, Command{Do: Decided})
}

// IsSettled reports whether the token stands on the masters that were read, so that Hold may follow.
func (l *Lease) IsSettled() bool { return l.phase == Settling && l.toRaise == 0 && l.cause == NoCause }

// Hold makes a settled lease a held lock, unless its contexts would end at once: reading the clock
// is the last step of an attempt. If it returns false, Cause says why.
func (l *Lease) Hold(now clock.Instant) bool {
	if l.terms.MaxHold > 0 {
		l.maxHoldEnd = l.begunAt.Add(l.terms.MaxHold)
	}
	l.deadline = l.reckon()
	if !now.Before(l.deadline.Add(-l.terms.StopBefore)) {
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
