package waiting

import "time"

// Retry has the bounds of the random time between attempts while no release can be heard.
type Retry struct{ Min, Max time.Duration }

// Waiter is one call that waits in a Queue. It is in one queue at a time.
type Waiter struct {
	Owner      any // set and used by the caller of Next alone
	prev, next *Waiter
}

// waiters is the waiters of a queue, in FIFO order. An operation takes the same time for any number of waiters.
type waiters struct {
	head, tail *Waiter
	retry      Retry // the shortest bounds of those that have waited since the queue was empty
}

// push adds a waiter at the end. It reports whether the bounds are shorter by it: the head must not bind the others
// to its own.
func (l *waiters) push(w *Waiter, retry Retry) (shorter bool) {
	w.prev, w.next = l.tail, nil
	before := l.retry
	if l.tail == nil {
		l.head, l.retry = w, retry
	} else {
		l.tail.next = w
		l.retry = Retry{min(before.Min, retry.Min), min(before.Max, retry.Max)}
	}
	l.tail = w
	return l.retry != before
}

func (l *waiters) remove(w *Waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.tail = w.prev
	}
	w.prev, w.next = nil, nil
}
