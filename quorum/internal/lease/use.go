package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Enter raises the depth of a valid lock by one, and has each master confirm that it keeps the lock. Levels and
// tokens on the masters are absolute, so a request or reply that is lost or repeated counts once. For a fixed lease
// it requests only the remaining time, so that no master prolongs it.
func (l *Lease) Enter(now clock.Instant, out []Command) []Command {
	l.depth++
	return l.confirmAll(now, out)
}

// Downgrade makes a reader of the holder of a valid lock, and has each master confirm it. From now on the
// holder counts as a reader. A master that is not reached may keep other readers out until a renewal
// reaches it.
func (l *Lease) Downgrade(now clock.Instant, out []Command) []Command {
	l.mode = Read
	for i := range l.votes {
		l.votes[i].set(exclusive)
	}
	return l.confirmAll(now, out)
}

// confirmAll has each master confirm the lock, with its depth and its mode.
func (l *Lease) confirmAll(now clock.Instant, out []Command) []Command {
	lease := l.terms.Lease
	if l.terms.Fixed {
		lease = l.deadline.Sub(now)
	}
	for i := range l.votes {
		c := Command{Do: Enter, Master: i, Depth: l.depth, Lease: lease, Until: clock.Deadline(now, lease, l.terms.Drift)}
		out = append(out, l.noteRequest(c))
	}
	return out
}

// Leave lowers the depth of a held lock by one, here and on the masters.
func (l *Lease) Leave(out []Command) []Command {
	l.depth--
	return l.release(l.depth, out)
}

// Extend asks all masters for a lease of that length from now.
func (l *Lease) Extend(now clock.Instant, lease time.Duration, out []Command) []Command {
	until := clock.Deadline(now, lease, l.terms.Drift)
	for i := range l.votes {
		out = append(out, Command{Do: Extend, Master: i, Lease: lease, Until: until, Mode: l.mode})
	}
	return out
}

// Linger ends a lock whose min hold is not over, and leaves it on the masters until then. It reports
// whether it does. A lock whose Locker was closed stays for its lease instead.
func (l *Lease) Linger(now clock.Instant, out []Command) (bool, []Command) {
	if !now.Before(l.MinHoldEnd()) {
		return false, out
	}
	switch {
	case l.phase == Orphaned:
		l.become(Released)
		return true, out
	case l.Valid(now):
		l.become(Lingering)
		l.hasten(l.MinHoldEnd())
		return true, append(out, Command{Do: End, Cause: Unlocked})
	}
	return false, out
}

// Unlock releases a lock that is held or orphaned. It loses one whose deadline has passed.
func (l *Lease) Unlock(now clock.Instant, out []Command) []Command {
	switch {
	case l.phase == Held && !now.Before(l.deadline):
		return l.lose(DeadlineFound, out)
	case l.phase == Held, l.phase == Orphaned:
		l.become(Released)
		return l.release(0, append(out, Command{Do: End, Cause: Unlocked}))
	}
	return out
}

// HandOver ends a valid lock and leaves it on the masters, for the owner that takes over. No command of this lease
// follows: none raises a counter, repairs or releases.
func (l *Lease) HandOver(out []Command) []Command {
	l.become(Released)
	l.cause = HandedOver
	return append(out, Command{Do: End, Cause: HandedOver})
}

// Orphan ends a held lock because its Locker was closed. The keys are left to their leases: the work
// that the lock protects may still be running.
func (l *Lease) Orphan(out []Command) []Command {
	if l.phase != Held {
		return out
	}
	l.become(Orphaned)
	l.deadline = clock.Never
	return append(out, Command{Do: End, Cause: Closed})
}

// Interrupt ends a lease because the caller's code has panicked or ended its goroutine.
func (l *Lease) Interrupt(out []Command) []Command {
	switch l.phase {
	case Asking, Settling:
		return l.GiveUp(out)
	case Held, Lingering, Orphaned:
		l.become(Released)
		return l.release(0, append(out, Command{Do: End, Cause: Unlocked}))
	}
	return out
}
