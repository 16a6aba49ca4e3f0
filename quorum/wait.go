package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// await waits in the queue for what is wanted until an attempt acquires it.
func (l *Locker) await(ctx context.Context, what wanted, o *observation) (lock *Lock, err error) {
	c, list, set, at := l.core, l.waitlist, l.set, l.core.Moment()
	var w *queue.Waiter
	if !set.isReader() || list.IsAwaited(what.key) { // otherwise it asks alongside others, until one is refused
		w = l.join(what, at)
	}
	defer func() { // also when code of the caller's panics: a log, a context
		switch {
		case w == nil:
		case lock != nil:
			c.noteShort(false)
			if w.Acquired(lock.set.terms.Lease, what.slots != nil && what.slots.more) {
				lock.handle.Hold().NoteAsked()
			}
		default:
			w.Leave()
		}
	}()
	for {
		if causes := c.endOfWaiting(ctx); causes != nil {
			return nil, l.gaveUp(w, what.names, causes)
		}
		if w != nil && w.IsGone() {
			w = nil
		}
		approach, due, published := waiting.Alone, true, -1
		if w != nil {
			approach, due = w.Begin(at)
		}
		if !due {
			select {
			case <-w.Wake():
			case <-ctx.Done():
			case <-c.Closed:
			}
			at = c.Moment()
			continue
		}
		if w != nil {
			published = w.TakePublished()
		}
		o.attempting()
		held, r := what.attempt(ctx, c, set, approach, published)
		if w != nil && held == nil && r.Reserved != nil {
			w.NoteReserved(r.Reserved, r.Approach.Probes())
		}
		o.attempted(held, r)
		if held != nil {
			return held, nil
		}
		if ctx.Err() != nil || r.err.permanent() {
			if last := lastError(w); r.IsCut() && last != nil { // the attempt before found out more
				return nil, l.errorOf(last, what.names, c.endOfWaiting(ctx))
			}
			r.err.noteEnd(ctx) // it may have ended since the attempt was undone
			return nil, r.err
		}
		c.nameHolder(r.err, c.holders.Inquire)
		what.names = slices.Clone(what.names) // the caller's slice may change while the call waits
		at = c.Moment()
		if w == nil {
			w = l.join(what, at)
			if _, isFirst := w.Begin(at); !isFirst {
				continue // the first of the queue attempts for all
			}
		}
		w.Refused(r.Result, r.Approach, r.err)
		w.Subscribe(what.channels())
		if r.Held && w.Requests() {
			c.askToLetGo(what, r)
		}
		at = c.Moment()
		if c.noteShort(!r.Held) {
			set.log().Warn("quorumlock: waiting for nodes", "names", r.err.Names, "error", r.err)
		}
	}
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

// join puts a call at the end of the queue for what it wants.
func (l *Locker) join(what wanted, at waiting.Moment) *queue.Waiter {
	w, subscribe := l.waitlist.Join(queue.Call{Key: what.key, Slots: what.count(), Retry: l.set.retry, Requests: l.set.request}, at)
	if subscribe {
		w.Subscribe(what.channels())
	}
	return w
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

// gaveUp returns the error of a call that gives up: the error of the queue's last attempt, no matter
// which waiter made it. w is nil for a call that is in no queue.
func (l *Locker) gaveUp(w *queue.Waiter, names []string, causes []error) *Error {
	last := lastError(w)
	switch {
	case last != nil:
	case isOverdue(causes): // the first attempt is under way without an answer
		last = l.core.unattempted(ErrUnavailable)
	default:
		last = l.core.unattempted()
	}
	return l.errorOf(last, names, causes)
}

// errorOf returns the error of an attempt as one waiter's, with what is known of the holder.
func (l *Locker) errorOf(attempt *Error, names []string, causes []error) *Error {
	c, e := l.core, attempt.forWaiter(names, causes)
	e.reads = l.set.isReader()
	c.nameHolder(e, c.holders.Recall)
	return e
}

// lastError returns the error of the queue's last attempt, nil for none.
func lastError(w *queue.Waiter) *Error {
	if w == nil {
		return nil
	}
	last, _ := w.LastError().(*Error)
	return last
}
