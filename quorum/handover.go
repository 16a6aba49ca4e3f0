package quorum

import (
	"cmp"
	"context"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/tickets"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// HandOver ends the lock here, so that another process can go on with it: it returns a ticket, a text
// for [Locker.TakeOver]. A quorum confirms a full lease first, unless the lease
// is fixed. Then the contexts of all handles of the lock end with
// [ErrHandedOver], and this process neither renews nor releases it. Its keys stay on the nodes until they
// expire, and nobody else acquires the lock before: for a full lease, or for what is left of a fixed one.
//
// A ticket works at most once. Whoever has it can take the lock, so give it to nobody else. If nobody uses it,
// the lease ends by itself.
//
// Only the handle that acquired the lock can hand it over. An error is an [*Error], and comes without
// a ticket: the lock is as before. It wraps [ErrUnavailable] if too few nodes confirmed the lease,
// [ErrLost], [ErrNotHeld] or [ErrClosed] if the lock is not held, [ErrInvalid] for the handle of a
// re-entry, for a reader's lock and for one with a min hold, or the context's error. The hook Released runs.
func (l *Lock) HandOver(ctx context.Context) (ticket string, err error) {
	if l.handle.Depth() > 1 {
		return "", invalidf(opHandOver, l.target.Names,
			"the handle entered the lock again: only the one that acquired it hands it over")
	}
	if l.locker.set.terms.MinHold > 0 { // a failed take-over would not keep it either, nor would a lease that ends before
		return "", invalidf(opHandOver, l.target.Names, "it has a min hold, which the next holder would not keep")
	}
	if ended := engine.EndOf(ctx); ended != nil {
		return "", &Error{Op: opHandOver, Names: l.target.Names, causes: ended}
	}
	if !l.locker.set.terms.Fixed {
		if err := l.extend(ctx, opHandOver, l.locker.set.terms.Lease); err != nil {
			return "", err
		}
	}
	if handed, before := l.handle.HandOver(); !handed {
		isReader := invalidf(opHandOver, l.target.Names, "it is held as a reader: only a writer's lock is handed over")
		return "", cmp.Or(l.unusable(opHandOver, before), error(isReader))
	}
	l.locker.room.holders.NoteHandedOver(l.Owner())
	l.runReleasedHook()
	return tickets.Ticket{Owner: l.handle.Hold().Owner(), Token: l.Token(), Names: l.target.Names, Slots: l.target.Slots}.String(), nil
}

// TakeOver acquires the lock of a ticket ([Lock.HandOver]) in place of the one that handed it over, in
// one attempt. The new lock has the names of the ticket, a fresh owner, the settings of this Locker,
// and a higher token, so that a resource that compares tokens refuses late writes of the first holder.
// ctx is the parent of its context, as for [Locker.Lock].
//
// The error is an [*Error]. It wraps [ErrInvalid] for a text that is no ticket, and for what Lock refuses. Otherwise it
// wraps [ErrNotAcquired], and [ErrLost] if the lock has passed on: the ticket has worked before, the lease has ended,
// an operator's ForceUnlock took the lock, or the call, or each of two at once, took it over on too few nodes. Then no
// further call with the ticket can succeed. If somebody holds the lock by then, it also wraps [ErrHeld]. Without ErrLost,
// it wraps [ErrUnavailable], [ErrQuarantined] or the context's error, and another call may succeed until the lease ends;
// or [ErrClosed] for a closed Locker. A failed call releases what it has taken from the first holder. At the end of the
// new lock, what nodes still have of the first holder is released, too.
func (l *Locker) TakeOver(ctx context.Context, ticket string) (*Lock, error) {
	t, err := tickets.Parse(ticket)
	if err != nil {
		return nil, invalidf(opTakeOver, nil, "the text is no ticket of HandOver: %v", err)
	}
	if err := l.checkStart(ctx, opTakeOver, t.Names); err != nil {
		return nil, err
	}
	c := l.newCall(ctx, t.Names)
	at := c.wants.Target()
	if t.Slots != nil {
		at = queue.AtSlots(t.Names[0], t.Slots, -1)
	}
	at.Predecessor = &t.Owner
	o := l.observe(ctx, t.Names)
	o.attempting()
	r := c.attemptOnce(ctx, at, waiting.AskAll)
	if !r.Acquired {
		c.err.Op = opTakeOver
		o.attempted(c, r)
		l.describeHolder(ctx, c.err)
		return l.report(o, nil, c.err)
	}
	o.attempted(c, r)
	if c.lock.Token() <= t.Token { // an operator has deleted the counters, say
		c.lock.handle.Hold().Interrupt()
		return l.report(o, nil, &Error{Op: opTakeOver, Names: t.Names, causes: []error{ErrNotAcquired, ErrLost,
			detail("the nodes' token counters are below the ticket's token")}})
	}
	return l.report(o, c.lock, nil)
}
