package engine

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// Status is a handle's view of its lock.
type Status struct {
	Phase lease.Phase
	Cause lease.Cause
	Mode  lease.Mode
	Depth int  // of the hold
	Valid bool // at Now
	Now   clock.Instant
	// Deadline is when the lock ends if no renewal is confirmed; clock.Never if too few nodes keep it, or the Engine was closed.
	Deadline clock.Instant
	Unlocked bool    // the handle was
	Ended    error   // from Events.Ending, or nil
	Keepers  Keepers // of a lock that is not valid
}

// Holds reports whether the handle holds the lock.
func (s Status) Holds() bool { return s.Valid && !s.Unlocked }

// Status returns the handle's status.
func (l *Handle) Status() Status {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	return l.statusLocked(l.hold.engine.Clock.Now())
}

func (l *Handle) statusLocked(now clock.Instant) Status {
	h := l.hold
	s := Status{Phase: h.lease.Phase(), Cause: h.lease.Cause(), Mode: h.lease.Mode(), Depth: h.lease.Depth(),
		Valid: h.lease.Valid(now), Now: now, Deadline: h.lease.Deadline(), Unlocked: l.unlocked.Load(), Ended: h.ended}
	if !s.Valid {
		s.Keepers = h.keepersLocked()
	}
	return s
}

// Hold returns the hold that the handle is an entry into.
func (l *Handle) Hold() *Hold { return l.hold }

// Depth returns the depth to which the handle entered, 1 for the first.
func (l *Handle) Depth() int { return l.depth }

// IsUnlocked reports whether the handle was unlocked, or handed over.
func (l *Handle) IsUnlocked() bool { return l.unlocked.Load() }

// Context returns the handle's context; nil for a lock that has not been held.
func (l *Handle) Context() context.Context { return l.ctx }

// Enter raises the depth of the hold by one, here and on the nodes, and gives it to the inner handle, whose context has
// that parent. A quorum must confirm that it keeps the lock: t counts the nodes. It is nil if the lock is not held, or its
// contexts have ended, or a reader would become a writer. A concurrent downgrade either happens first, and Enter sees it,
// or is refused because of the new depth.
func (l *Handle) Enter(inner *Handle, parent context.Context, mode lease.Mode) (t *Tally, before Status) {
	h := l.hold
	inner.makeContext(parent)
	inner.hold = h
	return l.change(func(now clock.Instant, before Status) (commands []lease.Command, ok bool) {
		if h.lease.Stopped() || mode == lease.Write && before.Mode == lease.Read {
			return nil, false
		}
		commands = h.lease.Enter(now, nil)
		inner.depth = h.lease.Depth()
		h.inner = append(h.inner, inner)
		return commands, true
	})
}

// BackOut undoes Enter on every node, once, even on nodes that the request has not reached or that refused it. The
// tally is decided once all have replied.
func (l *Handle) BackOut() *Tally {
	h, t := l.hold, newTallyOfAll(0)
	if h == nil || l.unlocked.Swap(true) {
		return t
	}
	defer l.EndContext(ErrNotAcquired)
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.depth > 0 && h.lease.Phase() == lease.Held {
		commands := h.leaveLocked(l)
		t = newTallyOfAll(len(commands))
		h.carryOutLocked(commands, t)
	}
	return t
}

// leaveLocked ends an inner handle: it lowers the depth by one, and returns the commands that do so on the
// nodes.
func (h *Hold) leaveLocked(l *Handle) []lease.Command {
	h.inner = slices.DeleteFunc(h.inner, func(other *Handle) bool { return other == l })
	return h.lease.Leave(nil)
}

// Extend asks all nodes for a lease of that length, if the handle holds the lock; t is nil if it doesn't.
func (l *Handle) Extend(lasts time.Duration) (t *Tally, before Status) {
	return l.change(func(now clock.Instant, _ Status) (commands []lease.Command, ok bool) {
		return l.hold.lease.Extend(now, lasts, nil), true
	})
}

// Downgrade makes a reader of the lock's holder, and asks all nodes to confirm it. t is nil if the handle doesn't hold
// the lock, if the lock has several names, or if a writer has entered it again.
func (l *Handle) Downgrade() (t *Tally, before Status) {
	return l.change(func(now clock.Instant, before Status) (commands []lease.Command, ok bool) {
		if len(l.hold.names) > 1 || before.Depth > 1 && before.Mode == lease.Write {
			return nil, false
		}
		return l.hold.lease.Downgrade(now, nil), true
	})
}

// change has all nodes confirm a change to a lock that stays held.
func (l *Handle) change(by func(now clock.Instant, before Status) ([]lease.Command, bool)) (t *Tally, before Status) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.engine.Clock.Now()
	before = l.statusLocked(now)
	if !before.Holds() {
		return nil, before
	}
	commands, ok := by(now, before)
	if !ok {
		return nil, before
	}
	t = newTally(h.engine.Quorum, h.engine.Quorum.Nodes())
	h.carryOutLocked(commands, t)
	return t, before
}

// Linger ends the lock and its contexts before its min hold is over, and leaves the release to the schedule. It
// reports whether the lock stays on the nodes. This is also true if the Engine was closed: then it stays for its lease.
func (l *Handle) Linger() (lingers bool, before Status) {
	h := l.hold
	if h.terms.MinHold == 0 {
		return false, before
	}
	defer func() { // with mu unlocked
		if lingers {
			defer h.engine.schedule.Hasten(&h.entry, h.lease.MinHoldEnd()) // even if a context of the caller's panics
			h.endContexts()
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.engine.Clock.Now()
	before = l.statusLocked(now)
	var room [1]lease.Command
	lingers, commands := h.lease.Linger(now, room[:0])
	if lingers {
		l.unlocked.Store(true)
		h.carryOutLocked(commands, nil)
	}
	return lingers, before
}

// HandOver ends the lock and its contexts, and leaves its keys on the nodes. No request for a grant is sent, or sent
// again, after it. It does nothing if the handle doesn't hold the lock, or if a reader holds it.
func (l *Handle) HandOver() (handed bool, before Status) {
	h := l.hold
	defer func() { // with mu unlocked, because the schedule's mutex comes first
		if handed {
			h.engine.schedule.Remove(&h.entry)
			h.endContexts()
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	before = l.statusLocked(h.engine.Clock.Now())
	if !before.Holds() || before.Mode == lease.Read {
		return false, before
	}
	var room [1]lease.Command
	commands := h.lease.HandOver(room[:0])
	l.unlocked.Store(true)
	for i := range h.members {
		h.members[i].footprint.Abandon()
	}
	h.releasePredecessorLocked()
	h.carryOutLocked(commands, nil)
	return true, before
}
