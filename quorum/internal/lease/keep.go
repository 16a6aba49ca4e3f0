package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
)

const (
	// coalesce bounds how much earlier than due a lease is renewed, together with others.
	coalesce = 3 * time.Millisecond

	// A renewal that fell short is tried again after a twelfth of the lease, within these bounds.
	minRenewPause = 2 * time.Millisecond
	maxRenewPause = 500 * time.Millisecond
)

// Effect is the result of a reply.
type Effect struct {
	Counts bool  // the master keeps the grant; by Ask and Raise only of a lease that has ended
	Twin   int   // the other master that is the same process, −1 for none: then the reply does not count
	Cause  Cause // why the reply to Raise fails the attempt
}

// TakeReply takes a master's reply to a command that can have one, or the news that the command
// could not be sent ([Unsent]). A command has one reply; replies come in any order, and late. now
// matters only for a lease that is [Lease.Kept], and not for Unsent: that never ends a lease, so the
// shell may report it while it carries out commands.
func (l *Lease) TakeReply(now clock.Instant, c Command, r Reply, out []Command) (Effect, []Command) {
	if l.HasEnded() && r.Is != NotAccepted { // a master that does not accept the client still gets its list
		return Effect{Twin: -1, Counts: r.Is == Granted || r.Is == Kept}, out
	}
	switch v := &l.votes[c.Master]; {
	case r.Is == NotAccepted && !v.has(submitted):
		return Effect{Twin: -1}, l.submit(c, r, out)
	case r.Is == Unsent && c.fresh:
		v.clear(mayHold)
	}
	switch c.Do {
	case Ask:
		return l.takeGrantReply(now, c, r, out)
	case Raise:
		return l.takeRaiseReply(c, r, out)
	case Repair, Enter:
		return l.takeRepairReply(now, c, r, out)
	case Renew, Extend:
		return l.takeRenewReply(now, c, r, out)
	default:
		return Effect{Twin: -1}, out
	}
}

// plan sets when Due is called next: a third of the lease after now for the next renewal, or when the contexts
// end if that comes first or the lease is fixed.
func (l *Lease) plan(now clock.Instant) {
	l.next, l.early = l.ContextsEnd(), 0
	if next := now.Add(l.terms.Lease / 3); !l.terms.Fixed && next.Before(l.next) {
		l.next, l.early = next, min(coalesce, l.terms.Lease/30)
	}
	if end := l.MinHoldEnd(); l.phase == Lingering && end.Before(l.next) {
		l.next, l.early = end, 0
	}
}

// Due ends a lease whose time is over: a held one is lost at its deadline, and a lingering one is
// released at the end of its min hold, or when the masters no longer keep it. Otherwise it ends the
// contexts if it is time, plans the next renewal and returns true, and the shell calls Renew. To renew
// later, the shell calls Postpone instead of Due.
func (l *Lease) Due(now clock.Instant, out []Command) (goesOn bool, _ []Command) {
	switch {
	case !l.Kept():
		return false, out
	case l.phase == Lingering && !(now.Before(l.MinHoldEnd()) && now.Before(l.deadline)):
		l.become(Released)
		return false, l.release(0, out)
	case !now.Before(l.deadline):
		return false, l.lose(l.whyOver(now), out)
	case !now.Before(l.ContextsEnd()):
		l.stopped = true
		out = append(out, Command{Do: Stop, Cause: Stopping})
	}
	l.plan(now)
	return true, out
}

// MayWait reports whether the renewal that is due at now may be postponed.
func (l *Lease) MayWait(now clock.Instant) bool {
	return l.phase == Held && !l.terms.Fixed && now.Before(l.ContextsEnd())
}

// Postpone has Due called later.
func (l *Lease) Postpone(until clock.Instant, early time.Duration) { l.next, l.early = until, early }

// Renew asks the masters that keep the grant to renew it, and the others to grant it again. A master that
// a downgrade has not reached is asked to make a reader of the holder. A master that forgot the lock
// grants it to the same owner with the same token, unless it is in quarantine or another owner is there.
// Renew leaves out masters that have not replied yet, so that requests to a slow one do not pile up.
func (l *Lease) Renew(now clock.Instant, out []Command) []Command {
	if !l.Kept() || l.terms.Fixed {
		return out
	}
	l.renewedAt = now
	for i := range l.votes {
		c := Command{Do: Renew, Master: i, Depth: l.depth, Lease: l.terms.Lease, Until: l.until(now), Mode: l.mode}
		switch v := &l.votes[i]; {
		case v.has(renewing):
			continue
		case v.until == clock.Never, v.has(exclusive):
			c.Do = Repair
			c = l.noteRequest(c)
			v.clear(forgot)
		}
		l.votes[i].set(renewing)
		out = append(out, c)
	}
	return out
}

// takeRenewReply takes a reply to Renew or Extend.
func (l *Lease) takeRenewReply(now clock.Instant, c Command, r Reply, out []Command) (Effect, []Command) {
	e := Effect{Twin: -1}
	if c.Do == Renew {
		l.votes[c.Master].clear(renewing)
	}
	switch r.Is {
	case Kept:
		e.Twin = l.confirm(now, c.Master, r.Process, c.Until)
		e.Counts = e.Twin < 0
	case Gone, Taken:
		if l.isPresent(c) {
			l.deny(now, c.Master)
		}
	} // NotRenewed: the key keeps its last TTL
	return e, l.review(now, r, out)
}

// takeRepairReply takes a reply to Repair or Enter.
func (l *Lease) takeRepairReply(now clock.Instant, c Command, r Reply, out []Command) (Effect, []Command) {
	v := &l.votes[c.Master]
	e := Effect{Twin: -1}
	switch r.Is {
	case Granted:
		e.Twin = l.confirm(now, c.Master, r.Process, c.Until)
		if e.Counts = e.Twin < 0; c.Mode == Read {
			v.clear(exclusive)
		}
	case Refused, Barred:
		if l.isPresent(c) {
			l.deny(now, c.Master)
			v.set(forgot) // the other owner's attempt may fail: a repair should go out soon
		}
	case Quarantined:
		if l.isPresent(c) {
			l.deny(now, c.Master)
			v.clear(forgot)
		}
	}
	v.clear(submitted)
	if c.Do == Repair {
		v.clear(renewing)
	}
	return e, l.review(now, r, out)
}

// isPresent reports whether a command is of the present mode. A writer's request may be carried out after the
// downgrade, if it was resent or its script had to be loaded: the master has no such writer then, and the reply to
// the downgrade shows whether it has the reader.
func (l *Lease) isPresent(c Command) bool { return c.Mode == l.mode }

// review ends a held lock that too few masters keep. If a renewal fell short, it is tried again soon.
func (l *Lease) review(now clock.Instant, r Reply, out []Command) []Command {
	if !l.Kept() || r.Is == Unsent {
		return out
	}
	if l.phase == Held && !now.Before(l.deadline) {
		return l.lose(l.whyOver(now), out)
	}
	l.hasten(max(l.ContextsEnd(), now)) // a lease that lingers may have no deadline
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

// fellShort reports whether a master should be repaired soon, or too few have confirmed the last renewals, or may yet.
func (l *Lease) fellShort() bool {
	goal := l.until(l.renewedAt)
	if l.maxHoldEnd != clock.Never {
		goal = min(goal, l.maxHoldEnd)
	}
	var may quorate.Set
	for i := range l.votes {
		switch v := &l.votes[i]; {
		case v.has(forgot):
			return true
		case v.has(renewing), !v.until.Before(goal):
			may |= quorate.Of(i)
		}
	}
	return !l.terms.Quorum.Enough(may)
}

// lose ends a lock that can no longer be trusted.
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

// release sends a release to each master that may hold something of the owner's, even if it has not
// replied.
func (l *Lease) release(depth int, out []Command) []Command {
	for i := range l.votes {
		if l.votes[i].has(mayHold) {
			out = append(out, Command{Do: Release, Master: i, Mode: l.mode, Depth: depth})
		}
	}
	return out
}
