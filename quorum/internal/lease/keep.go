package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const (
	// coalesce bounds how much earlier than due a lease is renewed, together with others.
	coalesce = 3 * time.Millisecond

	// A renewal that fell short is tried again after a twelfth of the lease, within these bounds.
	minRenewPause = 2 * time.Millisecond
	maxRenewPause = 500 * time.Millisecond
)

// Outcome is what an answer came to.
type Outcome struct {
	// Answer is the reply's. It is Failed where the reply cannot count: Twin is the same process, or the
	// master's marker changes while it is asked.
	Answer Answer
	Counts bool // the master keeps the grant
	Twin   int  // the other master that is the same process, −1 for none
	// Cause is why the answer to Raise fails the attempt.
	Cause Cause
}

// Answered takes a master's answer to a command that can have one, or the news that the command
// could not be sent ([Unsent]). A command has one answer; answers come in any order, and late. now
// matters only for a lease that is [Lease.Kept], and not for Unsent: that never ends a lease, so that
// the shell may feed it while it carries out commands.
func (l *Lease) Answered(now clock.Instant, c Command, r Reply, out []Command) (Outcome, []Command) {
	if l.HasEnded() && r.Is != NotAccepted { // a master that does not accept the client gets its list all the same
		return Outcome{Answer: r.Is, Twin: -1, Counts: r.Is == Granted || r.Is == Kept}, out
	}
	switch c.Do {
	case Ask:
		return l.answered(now, c, r, out)
	case Raise:
		return l.wroteBack(c, r, out)
	case Repair, Enter:
		return l.regranted(now, c, r, out)
	case Renew, Extend:
		return l.renewed(now, c, r, out)
	default:
		return Outcome{Answer: r.Is, Twin: -1}, out
	}
}

// HasEnded reports whether the lease has ended: answers change nothing any more.
func (l *Lease) HasEnded() bool { return l.phase != Asking && l.phase != Settling && !l.Kept() }

// plan sets when Due is called next: a third of the lease after now for the next renewal, or at the
// deadline if that comes first or the lease is fixed.
func (l *Lease) plan(now clock.Instant) {
	l.next, l.early = l.deadline, 0
	if next := now.Add(l.terms.Lease / 3); !l.terms.Fixed && next.Before(l.deadline) {
		l.next, l.early = next, min(coalesce, l.terms.Lease/30)
	}
	if end := l.MinHoldEnd(); l.phase == Lingering && end.Before(l.next) {
		l.next, l.early = end, 0
	}
}

// Due ends a lease whose time is over: a held one is lost at its deadline, and a lingering one is
// released at the end of its min hold, or when the masters keep it no longer. Else it plans the next
// renewal, and goesOn is true: then the shell calls Renew, or Postpone before Due.
func (l *Lease) Due(now clock.Instant, out []Command) (goesOn bool, _ []Command) {
	switch {
	case !l.Kept():
		return false, out
	case l.phase == Lingering && !(now.Before(l.MinHoldEnd()) && now.Before(l.deadline)):
		l.become(Released)
		return false, l.release(0, out)
	case l.phase == Held && !now.Before(l.deadline):
		return false, l.lose(l.whyOver(now), out)
	}
	l.plan(now)
	return true, out
}

// MayWait reports whether the renewal that is due at now may be postponed.
func (l *Lease) MayWait(now clock.Instant) bool {
	return l.phase == Held && !l.terms.Fixed && now.Before(l.deadline)
}

// Postpone has Due called later.
func (l *Lease) Postpone(until clock.Instant, early time.Duration) { l.next, l.early = until, early }

// Renew asks each master that keeps the grant to renew it, and each other one to grant it again: a
// master that forgot the lock grants it to the same owner with the same token, unless it is in
// quarantine or another owner is there. It leaves out masters that have not answered yet, so that
// requests to a slow one do not pile up.
func (l *Lease) Renew(now clock.Instant, out []Command) []Command {
	if !l.Kept() || l.terms.Fixed {
		return out
	}
	l.renewedAt = now
	for i := range l.votes {
		c := Command{Do: Renew, Master: i, Level: l.level, Lease: l.terms.Lease, Until: l.until(now)}
		switch v := &l.votes[i]; {
		case v.has(busy):
			continue
		case v.until == clock.Never:
			c.Do = Repair
			c = l.send(c)
			v.clear(forgot)
		}
		l.votes[i].set(busy)
		out = append(out, c)
	}
	return out
}

// RenewAgain is Renew for one master, whose renewal was refused together with others. It returns
// false after a release, which no renewal follows.
func (l *Lease) RenewAgain(now clock.Instant, c Command) (Command, bool) {
	if !l.Kept() {
		l.votes[c.Master].clear(busy)
		return c, false
	}
	c.Until = l.until(now)
	return c, true
}

// renewed takes an answer to Renew or Extend.
func (l *Lease) renewed(now clock.Instant, c Command, r Reply, out []Command) (Outcome, []Command) {
	o := Outcome{Answer: r.Is, Twin: -1}
	if c.Do == Renew {
		l.votes[c.Master].clear(busy)
	}
	switch r.Is {
	case Kept:
		if o.Twin = l.confirm(now, c.Master, r.Process, c.Until); o.Twin >= 0 {
			o.Answer = Failed
		}
	case Gone, Taken:
		l.deny(now, c.Master)
	} // NotRenewed: the key is there, for as long as the last renewal said
	o.Counts = o.Answer == Kept
	return o, l.review(now, r, out)
}

// regranted takes an answer to Repair or Enter.
func (l *Lease) regranted(now clock.Instant, c Command, r Reply, out []Command) (Outcome, []Command) {
	v := &l.votes[c.Master]
	o := Outcome{Answer: r.Is, Twin: -1}
	switch r.Is {
	case NotAccepted:
		if !v.has(resubmit) {
			return o, l.submit(c, r, out)
		}
		o.Answer = Failed
	case Unsent:
		if c.fresh {
			v.clear(mayHold)
		}
		o.Answer = Failed
	case Granted:
		if o.Twin = l.confirm(now, c.Master, r.Process, c.Until); o.Twin >= 0 {
			o.Answer = Failed
		}
	case Refused, Barred:
		l.deny(now, c.Master)
		v.set(forgot) // the other owner's attempt may fail: a repair should go out soon
	case Quarantined:
		l.deny(now, c.Master)
		v.clear(forgot)
	}
	v.clear(resubmit)
	if c.Do == Repair {
		v.clear(busy)
	}
	o.Counts = o.Answer == Granted
	return o, l.review(now, r, out)
}

// review ends a held lock that too few masters keep, and has a renewal that fell short tried again
// soon.
func (l *Lease) review(now clock.Instant, r Reply, out []Command) []Command {
	if !l.Kept() || r.Is == Unsent {
		return out
	}
	if l.phase == Held && !now.Before(l.deadline) {
		return l.lose(l.whyOver(now), out)
	}
	l.hasten(max(l.deadline, now)) // a lease that lingers may have none
	if !l.terms.Fixed && l.fellShort() {
		l.hasten(now.Add(min(max(l.terms.Lease/12, minRenewPause), maxRenewPause)))
	}
	return out
}

func (l *Lease) hasten(by clock.Instant) {
	if by.Before(l.next) {
		l.next = by
	}
}

// fellShort reports whether a master should be repaired soon, or all have answered the last
// renewals and too few have confirmed.
func (l *Lease) fellShort() bool {
	open := false
	for i := range l.votes {
		if l.votes[i].has(forgot) {
			return true
		}
		open = open || l.votes[i].has(busy)
	}
	goal := l.until(l.renewedAt)
	if l.maxHoldEnd != clock.Never {
		goal = min(goal, l.maxHoldEnd)
	}
	return !open && l.deadline.Before(goal)
}

// lose ends a lock that can no longer be trusted, and its contexts first of all.
func (l *Lease) lose(why Cause, out []Command) []Command {
	l.become(Expired)
	l.cause = why
	return append(out, Command{Do: End, Cause: why})
}

// whyOver returns why a lock whose deadline has passed is lost.
func (l *Lease) whyOver(now clock.Instant) Cause {
	switch {
	case l.maxHoldEnd != clock.Never && !now.Before(l.maxHoldEnd):
		return MaxHoldOver
	case l.deadline == clock.Never:
		return NotKept
	case l.terms.Fixed:
		return LeaseOver
	default:
		return NotConfirmed
	}
}

// Drop releases what masters still keep of a lost lock. The shell calls it once no renewal of the
// lock is on its way to a pipeline.
func (l *Lease) Drop(out []Command) []Command { return l.release(0, out) }

// release sends a release to each master that may hold something of the owner's, also to those that
// have not answered.
func (l *Lease) release(level int, out []Command) []Command {
	for i := range l.votes {
		if l.votes[i].has(mayHold) {
			out = append(out, Command{Do: Release, Master: i, Level: level})
		}
	}
	return out
}
