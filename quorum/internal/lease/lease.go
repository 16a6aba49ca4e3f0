package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
)

// Terms are the settings of a lease. They do not change.
type Terms struct {
	Quorum     quorate.Rule
	Lease      time.Duration // of a grant, and of a renewal
	Drift      float64       // how much two clocks may differ over a lease, as a part of it
	Fixed      bool          // the lease is never renewed
	MaxHold    time.Duration // 0 for none
	MinHold    time.Duration // 0 for none
	StopBefore time.Duration // how long before the deadline the contexts end
	Mode       Mode          // with which a lease begins
}

// Mode says whether a lease holds its names alone.
type Mode uint8

const (
	Write Mode = iota // alone
	Read              // together with other readers
)

// Phase is a lease's place in its life. No phase comes back.
type Phase uint8

const (
	Asking    Phase = iota // until the outcome of the attempt is certain
	Settling               // a quorum has granted; its counters are raised to the token
	Held                   // as of the last clock reading: check the deadline
	Lingering              // unlocked, and kept on the masters until the end of its min hold
	Undone                 // an attempt that failed
	Released
	Expired  // it can no longer be trusted
	Orphaned // the Locker was closed while the lock was held
)

// Lease is one owner's lock, from the first request for a grant until it is released or lost. Each
// attempt has a fresh owner, so a late release never deletes a grant that another attempt counts.
// It must not be used before [Lease.Init]. It is not safe for concurrent use.
type Lease struct {
	terms *Terms
	votes []Vote

	phase      Phase
	mode       Mode
	verdict    Verdict
	cause      Cause
	first      uint8       // the master that is asked first. Invariant: first < len(votes)
	asked      uint8       // how many masters were asked. Invariant: len(votes) once a quorum has granted
	toRaise    quorate.Set // the masters whose counters are yet to be raised. Invariant: their grants are counted; none once it is held
	writeBacks int         // how many were to be raised in all. Invariant: toRaise has no more
	token      uint64
	depth      int // Invariant: depth >= 1 while it is kept

	begunAt    clock.Instant // read before the requests for a grant were sent
	renewedAt  clock.Instant // read before the last renewals, or else those requests, were sent
	deadline   clock.Instant // once it has passed, no reply revives the lease. Invariant: deadline <= maxHoldEnd, if there is one
	maxHoldEnd clock.Instant // Never for none
	next       clock.Instant // when Due is to be called
	early      time.Duration // how much earlier than next it may be called
	stopped    bool          // the contexts have ended before the deadline. Invariant: no renewal takes it back
}

// Vote is one master's part in a lease.
type Vote struct {
	until   clock.Instant // d_i of design.md §4.3: how long the master keeps the grant, by the local clock. Invariant: mayHold is set
	process string        // that confirmed the grant last. Invariant: of votes that keep the grant, no two have one process
	token   uint64        // the counter that came with the grant
	answer  Answer        // to the request for a grant
	flags   flags
}

type flags uint8

const (
	mayHold   flags = 1 << iota // a request may have been carried out, or may yet be: the master needs a release
	renewing                    // a renewal or a repair awaits its reply
	forgot                      // the master does not keep the grant, and a repair should go out soon
	submitted                   // the client's list was submitted, and the request goes out again
	counted                     // the grant was read when the quorum was reached: its counter decides on the token
	exclusive                   // it has not confirmed the downgrade, and may keep readers out. Invariant: the mode is Read
)

func (v *Vote) has(f flags) bool { return v.flags&f != 0 }
func (v *Vote) set(f flags)      { v.flags |= f }
func (v *Vote) clear(f flags)    { v.flags &^= f }

// Init makes a lease with a vote for each master. It asks for nothing yet, and keeps the slice.
func (l *Lease) Init(terms *Terms, votes []Vote) {
	*l = Lease{terms: terms, votes: votes, mode: terms.Mode, depth: 1, begunAt: clock.Never, renewedAt: clock.Never,
		deadline: clock.Never, maxHoldEnd: clock.Never, next: clock.Never}
	for i := range votes {
		votes[i] = Vote{until: clock.Never}
	}
}

// InitHeld makes a lease that is held until then, on no masters: for tests of code that is given a
// lock. It is called after Init.
func (l *Lease) InitHeld(token uint64, until clock.Instant) {
	l.token, l.deadline, l.phase = token, until, Held
}

func (l *Lease) Phase() Phase            { return l.phase }
func (l *Lease) Mode() Mode              { return l.mode }
func (l *Lease) Verdict() Verdict        { return l.verdict }
func (l *Lease) Cause() Cause            { return l.cause }
func (l *Lease) Token() uint64           { return l.token }
func (l *Lease) Depth() int              { return l.depth }
func (l *Lease) BegunAt() clock.Instant  { return l.begunAt }
func (l *Lease) Deadline() clock.Instant { return l.deadline }

// Next returns when [Lease.Due] is to be called, and how much earlier it may be.
func (l *Lease) Next() (at clock.Instant, early time.Duration) { return l.next, l.early }

// WriteBacks returns how many counters the token was to be written back to.
func (l *Lease) WriteBacks() int { return l.writeBacks }

// Valid reports whether the lock is held at now.
func (l *Lease) Valid(now clock.Instant) bool { return l.phase == Held && now.Before(l.deadline) }

// Stopped reports whether the contexts have ended, though the lock may still be held.
func (l *Lease) Stopped() bool { return l.stopped }

// ContextsEnd returns when the contexts are to end, if no reply moves the deadline; the deadline if they have ended.
func (l *Lease) ContextsEnd() clock.Instant {
	if l.stopped || l.phase != Held {
		return l.deadline
	}
	return l.deadline.Add(-l.terms.StopBefore)
}

// Kept reports whether the masters are to keep the lock: it is renewed and repaired.
func (l *Lease) Kept() bool { return l.phase == Held || l.phase == Lingering }

// HasEnded reports whether the lease has ended: replies no longer change anything.
func (l *Lease) HasEnded() bool { return l.phase != Asking && l.phase != Settling && !l.Kept() }

// IsDone reports whether the lease has ended and no caller can release it: among ended leases, only an orphan waits
// for its Unlock.
func (l *Lease) IsDone() bool { return l.HasEnded() && l.phase != Orphaned }

// MinHoldEnd returns the instant before which an unlocked lease stays on the masters. Like the end of the max
// hold, it counts from before the requests for a grant were sent: on the masters the lease began later.
func (l *Lease) MinHoldEnd() clock.Instant { return l.begunAt.Add(l.terms.MinHold) }

// EndedByMaxHold reports whether the max hold bounds the lease.
func (l *Lease) EndedByMaxHold() bool {
	return l.maxHoldEnd != clock.Never && l.deadline == l.maxHoldEnd
}

// Until returns the instant until which a master keeps the grant, by the local clock; Never for one
// that does not.
func (l *Lease) Until(master int) clock.Instant { return l.votes[master].until }

// KeepersAt returns the masters that keep the grant at now.
func (l *Lease) KeepersAt(now clock.Instant) (keepers quorate.Set) {
	for i := range l.votes {
		if now.Before(l.votes[i].until) {
			keepers |= quorate.Of(i)
		}
	}
	return keepers
}

// AnswerOf returns what a master answered to the request for a grant.
func (l *Lease) AnswerOf(master int) Answer { return l.votes[master].answer }

// until returns the instant until which a grant may be relied on, if its request was sent at sent
// or later.
func (l *Lease) until(sent clock.Instant) clock.Instant {
	return clock.Deadline(sent, l.terms.Lease, l.terms.Drift)
}

// become is the one writer of the phase.
func (l *Lease) become(p Phase) { l.phase = p }

// refresh computes the deadline from the votes, unless it has passed.
func (l *Lease) refresh(now clock.Instant) {
	if l.Kept() && now.Before(l.deadline) {
		l.deadline = l.reckon()
	}
}

// reckon returns the instant until which a quorum keeps the grant.
func (l *Lease) reckon() clock.Instant {
	all := make([]clock.Instant, 0, 8)
	for i := range l.votes {
		all = append(all, l.votes[i].until)
	}
	at := quorate.Largest(l.terms.Quorum, all)
	if l.maxHoldEnd != clock.Never {
		at = min(at, l.maxHoldEnd)
	}
	return at
}

// confirm records that a master keeps the grant until then. It only raises vote.until, since a time
// to live never shrinks, and revives no lease whose deadline has passed. One process is one vote: if
// another master is the same process and granted before, confirm returns that one, else −1.
func (l *Lease) confirm(now clock.Instant, master int, process string, until clock.Instant) (twin int) {
	for i := range l.votes {
		if other := &l.votes[i]; i != master && other.until != clock.Never && other.process == process {
			l.deny(now, master)
			return i
		}
	}
	v := &l.votes[master]
	v.process = process
	v.clear(forgot | submitted)
	if v.until.Before(until) {
		v.until = until
	}
	l.refresh(now)
	return -1
}

// deny records that a master does not keep the grant.
func (l *Lease) deny(now clock.Instant, master int) {
	if v := &l.votes[master]; v.until != clock.Never {
		v.until = clock.Never
		v.set(forgot)
	}
	l.refresh(now)
}
