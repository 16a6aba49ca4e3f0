package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/scripts"
)

// await waits for what is wanted until an attempt acquires it.
func (l *Locker) await(ctx context.Context, what wanted, o *observation) (lock *Lock, err error) {
	c, set := l.core, l.set
	place := l.enter(what)
	defer func() { // also when code of the caller's panics: a log, a context
		if lock == nil {
			place.Leave()
			return
		}
		c.noteShort(false)
		if place.Acquired(lock.set.terms.Lease, what.slots != nil && what.slots.more) {
			lock.handle.Hold().NoteAsked()
		}
	}()
	for {
		turn, due := place.Next(ctx)
		if !due {
			return nil, l.gaveUp(place.LastError(), what.names, c.endOfWaiting(ctx))
		}
		o.attempting()
		held, r := what.attempt(ctx, c, set, turn)
		if held == nil {
			place.NoteReserved(r.Reserved, r.Approach.Probes())
		}
		o.attempted(held, r)
		if held != nil {
			return held, nil
		}
		if ctx.Err() != nil || r.err.permanent() {
			if last, _ := place.LastError().(*Error); r.IsCut() && last != nil { // the attempt before found out more
				return nil, l.errorOf(last, what.names, c.endOfWaiting(ctx))
			}
			r.err.noteEnd(ctx) // it may have ended since the attempt was undone
			return nil, r.err
		}
		c.nameHolder(r.err, c.holders.Inquire)
		what.names = slices.Clone(what.names) // the caller's slice may change while the call waits
		if !place.Refused(r.Result, r.Approach, r.err, what.channels()) {
			continue
		}
		if r.Held && place.Requests() {
			c.askToLetGo(what, r)
		}
		if c.noteShort(!r.Held) {
			set.log().Warn("quorumlock: waiting for nodes", "names", r.err.Names, "error", r.err)
		}
	}
}

// enter gives a call its place among those that wait for what it wants.
func (l *Locker) enter(what wanted) queue.Place {
	return l.waitlist.Enter(queue.Call{Key: what.key, Slots: what.count(), Retry: l.set.retry, Requests: l.set.request},
		what.channels())
}

// quietFor is the least time between two lines of the log that calls wait for nodes: attempts may
// fail and succeed by turns.
const quietFor = 10 * time.Second

// noteShort notes whether an attempt of a call that waits failed because nodes were missing. It reports whether the log
// should say so: once while that lasts, however many calls wait.
func (c *core) noteShort(short bool) (say bool) {
	if !short {
		if c.saidShort.Load() {
			c.saidShort.Store(false)
		}
		return false
	}
	now, until := c.Clock.Now(), c.quietUntil.Load()
	return now >= clock.Instant(until) && c.saidShort.CompareAndSwap(false, true) &&
		c.quietUntil.CompareAndSwap(until, int64(now.Add(quietFor)))
}

// askToLetGo asks the holder that refused an attempt to let go. A node that is down is left out: the next attempt asks
// again.
func (c *core) askToLetGo(what wanted, r *attemptResult) {
	var call scripts.Call
	switch {
	case what.slots != nil, r.Readers: // an attempt doesn't learn who all of them are
		call = scripts.AskAll(what.channels(), c.LastOwner())
	case r.err.Holder != "":
		call = scripts.Ask(what.channels(), r.err.Holder)
	default:
		return
	}
	for _, n := range c.Nodes {
		inside.Of(n).Pipe(what.names[0]).Start(call, nil, nil)
	}
}

// bounded returns a context that ends with the caller's, or earlier by WithWait. The caller calls stop
// when the waiting is over.
func (c *core) bounded(ctx context.Context, set *settings) (until context.Context, stop func()) {
	if set.wait == noBound {
		return ctx, func() {}
	}
	inner, cancel := context.WithCancelCause(ctx)
	timer := c.Clock.AfterFunc(set.wait, func() { cancel(waitOver(set.wait)) })
	return &waitContext{inner, ctx}, func() {
		timer.Stop()
		cancel(nil)
	}
}

// endOfWaiting returns what has ended the waiting, nil for nothing.
func (c *core) endOfWaiting(ctx context.Context) []error {
	causes := contextError(ctx)
	if c.IsClosed() {
		causes = append(causes, fmt.Errorf("quorumlock: %w", ErrClosed))
	}
	return causes
}

// gaveUp returns the error of a call that gives up. attempt is the error of the queue's last attempt, nil for none.
func (l *Locker) gaveUp(attempt error, names []string, causes []error) *Error {
	last, _ := attempt.(*Error)
	switch {
	case last != nil:
	case isOverdue(causes): // the first attempt is under way without an answer
		last = l.core.unattempted(ErrUnavailable)
	default:
		last = l.core.unattempted()
	}
	return l.errorOf(last, names, causes)
}

// errorOf returns the error of an attempt as one waiter's, which ends for further causes, with what is known of the holder.
func (l *Locker) errorOf(attempt *Error, names []string, causes []error) *Error {
	e := *attempt
	e.Names, e.causes = slices.Clone(names), append(slices.Clone(e.causes), causes...)
	e.reads = l.set.isReader()
	l.core.nameHolder(&e, l.core.holders.Recall)
	return &e
}
