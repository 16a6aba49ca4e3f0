package quorum

import (
	"context"
	"fmt"
)

// bounded returns a context that ends with the caller's, or earlier by WithWait. The caller calls stop
// when the waiting is over.
func (c *core) bounded(ctx context.Context, set *settings) (until context.Context, stop func()) {
	if set.wait == noBound {
		return ctx, func() {}
	}
	inner, cancel := context.WithCancelCause(ctx)
	timer := c.clock.AfterFunc(set.wait, func() { cancel(waitOver(set.wait)) })
	return &waitContext{inner, ctx}, func() {
		timer.Stop()
		cancel(nil)
	}
}

// endOfWaiting returns what has ended the waiting, nil for nothing.
func (c *core) endOfWaiting(ctx context.Context) []error {
	causes := contextError(ctx)
	if c.isClosed() {
		causes = append(causes, fmt.Errorf("quorumlock: %w", ErrClosed))
	}
	return causes
}

// gaveUpError returns the error of a call that gives up: that of the queue's last attempt, no matter
// which waiter made it. w is nil for a call that is in no queue.
func (list *waitlist) gaveUpError(w *waiter, set *settings, names []string, causes []error) *Error {
	last := w.lastError()
	switch {
	case last != nil:
	case isOverdue(causes): // the first attempt is under way without an answer
		last = list.core.unattempted(ErrUnavailable)
	default:
		last = list.core.unattempted()
	}
	return list.errorOf(last, set, names, causes)
}

// errorOf returns the error of an attempt as that of one waiter, with what is known of the holder.
func (list *waitlist) errorOf(attempt *Error, set *settings, names []string, causes []error) *Error {
	c, e := list.core, attempt.forWaiter(names, causes)
	e.reads = set.isReader()
	c.nameHolder(e, c.holders.Recall)
	return e
}

// lastError returns the error of the queue's last attempt, nil for none.
func (w *waiter) lastError() *Error {
	if w == nil {
		return nil
	}
	list := w.queue.list
	list.mu.Lock()
	defer list.mu.Unlock()
	return w.queue.lastError
}
