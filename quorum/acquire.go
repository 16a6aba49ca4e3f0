package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Lock waits until it holds all the names, or ctx ends, or the bound of [WithWait] is reached. It takes 1 to 64 names
// of 1 to 4,096 bytes, each once. None may begin as the library's keys do: with "quorumlock:" or, under a prefix
// ([node.WithPrefix]), "team:quorumlock:lock:", for example. It locks all or none: callers may give them in any order.
// (Calls nested in two orders would wait for each other.) The lock is held until [Lock.Unlock], and renewed in the
// background unless the lease is fixed. ctx is also the parent of the lock's context, so it should span the work, not
// only the waiting: when ctx ends the lock's context ends, but the lock is held, and renewed, until Unlock.
//
// With the context of a held lock, Lock enters that lock again if all the names are its names. If none is, it makes
// another lock. For a mix it returns [ErrInvalid]. Do not give the lock's context to a
// goroutine that should wait for the lock: it would enter at once. Re-entry does not change the lock:
// a fixed lease is not prolonged, and a Locker that [Locker.With] made with another lease, max hold,
// min hold, drift or [WithStopBefore] gets ErrInvalid. If the lock is lost meanwhile, or its contexts have ended before
// its deadline, the error wraps [ErrNotAcquired] and [ErrLost]; [ErrNotHeld] if it is unlocked meanwhile.
//
// After a process has unlocked the names, its next call lets waiters of other processes go first, for
// a bounded time, usually some milliseconds.
//
// The error is an [*Error]. When ctx ends it wraps [ErrNotAcquired], the reason of the last
// attempt, if there was one ([ErrHeld], [ErrQuarantined] or [ErrUnavailable]), and the context's
// error. Lock does not wait if the names cannot be locked (ErrInvalid), if the Locker is closed
// ([ErrClosed]), or if too many nodes have a permanent error, such as a wrong password, or a key of
// another type at the name (the [*node.Error] of each). These three wrap [ErrPermanent]: do not try
// them again in a loop.
func (l *Locker) Lock(ctx context.Context, names ...string) (*Lock, error) {
	return l.lock(ctx, names, l.set.wait > 0)
}

// TryLock is [Locker.Lock] without waiting for a release. It returns [ErrHeld] if another holder has the names. If
// several processes try at once, so that none gets enough votes, each tries again: one of them gets the lock. TryLock
// takes a round trip or two if nobody else tries, some more if others do, about a node's timeout if too many nodes do
// not answer, and five to seven if one no longer answers and the others disagree. The errors are as for Lock.
func (l *Locker) TryLock(ctx context.Context, names ...string) (*Lock, error) {
	return l.lock(ctx, names, false)
}

// lock checks the call, and enters the lock over the names that the flow of ctx holds, or makes another one.
func (l *Locker) lock(ctx context.Context, names []string, waits bool) (inner *Lock, err error) {
	if err := l.checkStart(ctx, "lock", names); err != nil {
		return nil, err
	}
	within, err := l.heldBy(ctx, "lock", names)
	switch {
	case err != nil:
		return nil, err
	case within == nil:
		return l.newCall(ctx, names).acquire(waits)
	case !waits:
		return within.enter(ctx, ctx, l.set, names)
	}
	until, stop := l.bounded(ctx)
	defer func() { inner.guard(stop) }()
	return within.enter(ctx, until, l.set, names)
}

// acquire acquires what is wanted, and waits for a release if it may.
func (c *call) acquire(waits bool) (*Lock, error) {
	if waits {
		return c.wait()
	}
	return c.try()
}

// wait waits until it has what is wanted.
func (c *call) wait() (lock *Lock, err error) {
	until, stop := c.bounded(c.ctx)
	defer func() { lock.guard(stop) }()
	o := c.observe(c.ctx, c.wants.Names)
	held, err := c.awaitWithin(innermost(c.ctx), until, o)
	return c.report(o, held, err)
}

// try attempts to get what is wanted until this call has it, or another one is known to have it.
func (c *call) try() (*Lock, error) {
	ctx := c.ctx
	o := c.observe(ctx, c.wants.Names)
	c.tries = waiting.NewTries(c.engine.Quorum)
	for approach := waiting.Alone; ; {
		o.attempting()
		r := c.attempt(ctx, queue.Due{Approach: approach, Published: -1})
		o.attempted(c, r)
		if r.Acquired {
			return c.report(o, c.lock, nil)
		}
		var pause time.Duration
		approach, pause = c.tries.Next(c.engine.Moment(), c.room.waitlist.Random)
		if r.MayTry && !c.err.permanent() && c.engine.Pause(ctx, pause) {
			continue
		}
		if r.MayTry {
			c.err.noteSplit()
		}
		c.err.noteEnd(ctx)
		c.describeHolder(ctx, c.err)
		return c.report(o, nil, c.err)
	}
}

// report calls the hooks at the end of a call, and returns its results.
func (l *Locker) report(o *observation, lock *Lock, err error) (*Lock, error) {
	hook := l.set.hooks.Acquired
	lock.guard(func() {
		o.ended(lock, err)
		if hook != nil && lock != nil {
			hook(lock)
		}
	})
	return lock, err
}

// Do locks the names, runs fn with the lock and its context, and unlocks, even if fn panics or ctx has ended. The
// context ends when the lock can no longer be trusted. The functions that fn calls find the lock by [FromContext].
//
// If the lock was not acquired, Do returns the error of [Locker.Lock], and fn does not run. Otherwise it returns fn's
// error joined with that of [Lock.Unlock]. It wraps [ErrLost] if the lock was lost before fn returned, and, with
// [WithStopBefore], if fn returned its context's cause. If fn has handed the lock over ([Lock.HandOver]), Do returns
// fn's error.
func (l *Locker) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error, names ...string) error {
	lock, err := l.Lock(ctx, names...)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

// do runs fn, and unlocks.
func (l *Lock) do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) (err error) {
	defer func() {
		if l.Err() == ErrHandedOver {
			return
		}
		unlockErr := l.Unlock(context.WithoutCancel(ctx))
		if loss := l.Err(); errors.Is(err, loss) && errors.Is(unlockErr, loss) {
			return // fn has returned the cause of its context
		}
		err = plain.Join(err, unlockErr)
	}()
	return fn(l.Context(), l)
}

// await waits for what is wanted until an attempt acquires it.
func (c *call) await(ctx context.Context, o *observation) (lock *Lock, err error) {
	place, more := c.room.waitlist.Enter(c.wants, c.set.retry), false
	defer func() { // even if the caller's code panics: a log, a context
		if lock == nil {
			place.Leave()
			return
		}
		c.room.noteShort(false)
		place.Acquired(c.set.terms.Lease, more)
	}()
	for {
		turn, due := place.Next(ctx)
		if !due {
			return nil, c.gaveUp(ctx, place.LastError())
		}
		o.attempting()
		r := c.attempt(ctx, turn)
		if !r.Acquired {
			place.NoteReserved(r.Reserved)
		}
		o.attempted(c, r)
		if r.Acquired {
			more = r.More
			return c.lock, nil
		}
		if ctx.Err() != nil || c.err.permanent() {
			if last, _ := place.LastError().(*Error); r.IsCut() && last != nil { // the attempt before found out more
				return nil, c.errorOf(last, c.endOfWaiting(ctx))
			}
			if c.err.split {
				c.err.noteSplit()
			}
			c.err.noteEnd(ctx) // it may have ended since the attempt was undone
			return nil, c.err
		}
		c.nameHolder(c.err, c.room.holders.Inquire)
		if !place.Refused(r.Result, r.Approach, c.err) {
			continue
		}
		if c.room.noteShort(!r.Held) {
			c.set.log().Warn("quorumlock: waiting for nodes", "names", c.err.Names, "error", c.err)
		}
	}
}

// bounded returns a context that ends with the caller's, or earlier by WithWait. The caller calls stop
// when the waiting is over. stop runs the caller's code: to end a context asks its parent.
func (l *Locker) bounded(ctx context.Context) (until context.Context, stop func()) {
	if l.set.wait == noBound {
		return ctx, func() {}
	}
	until, cancel := context.WithCancelCause(ctx)
	timer := l.engine.Clock.AfterFunc(l.set.wait, func() { cancel(engine.WaitOver(l.set.wait)) })
	return until, func() {
		timer.Stop()
		cancel(nil)
	}
}

// endOfWaiting returns what has ended the waiting; nil if nothing has.
func (l *Locker) endOfWaiting(ctx context.Context) []error {
	causes := engine.EndOf(ctx)
	if l.engine.IsClosed() {
		causes = append(causes, fmt.Errorf("quorumlock: %w", ErrClosed))
	}
	return causes
}

// gaveUp returns the error of a call that gives up. attempt is the error of the queue's last attempt, nil for none.
func (c *call) gaveUp(ctx context.Context, attempt error) *Error {
	causes := c.endOfWaiting(ctx)
	last, _ := attempt.(*Error)
	switch {
	case last != nil:
	case engine.IsOverdue(causes): // the first attempt is under way without an answer
		last = unattempted(c.engine, engine.Unavailable)
	default:
		last = unattempted(c.engine, engine.Failed)
	}
	return c.errorOf(last, causes)
}

// errorOf returns an attempt's error for one waiter, with the further causes of its end and what is known of the holder.
func (c *call) errorOf(attempt *Error, causes []error) *Error {
	e := attempt.clone() // other waiters have the attempt's
	if e.split {
		e.noteSplit()
	}
	e.Names, e.reads = c.wants.Names, c.set.isReader()
	e.addEnd(causes)
	c.nameHolder(e, c.room.holders.Recall)
	return e
}
