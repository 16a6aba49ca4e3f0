package waiting

import "slices"

// Waiter is one call that waits in a Queue. It is in one queue at a time.
type Waiter struct {
	Owner      any // set and used by the caller of Next alone
	retry      Retry
	prev, next *Waiter
}

// waiters has the waiters of a queue, in FIFO order, with the bounds of their retry times. An
// operation takes the same time for any number of waiters.
type waiters struct {
	ring     Waiter        // it links the tail to the head
	retries  []retryCount  // one entry for each different bounds
	oneRetry [1]retryCount // room for the usual case
}

// retryCount counts the waiters that have the same bounds.
type retryCount struct {
	retry   Retry
	waiters int
}

func (l *waiters) init() { l.ring.prev, l.ring.next = &l.ring, &l.ring }

// head returns the first waiter; nil for none.
func (l *waiters) head() *Waiter {
	if l.ring.next == &l.ring {
		return nil
	}
	return l.ring.next
}

func (l *waiters) push(w *Waiter, retry Retry) {
	w.retry, w.prev, w.next = retry, l.ring.prev, &l.ring
	w.prev.next, w.next.prev = w, w
	l.countRetry(retry, 1)
}

func (l *waiters) remove(w *Waiter) {
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
	l.countRetry(w.retry, -1)
}

// retryBounds returns the shortest bounds among the waiters: the head must not impose its own on the others.
func (l *waiters) retryBounds() Retry {
	if len(l.retries) == 0 {
		return Retry{}
	}
	shortest := l.retries[0].retry
	for _, c := range l.retries[1:] {
		shortest.Min, shortest.Max = min(shortest.Min, c.retry.Min), min(shortest.Max, c.retry.Max)
	}
	return shortest
}

// countRetry keeps one entry per pair of bounds: a program has few settings.
func (l *waiters) countRetry(retry Retry, change int) {
	i := slices.IndexFunc(l.retries, func(c retryCount) bool { return c.retry == retry })
	if i < 0 {
		if l.retries == nil {
			l.retries = l.oneRetry[:0]
		}
		l.retries = append(l.retries, retryCount{retry, change})
		return
	}
	if l.retries[i].waiters += change; l.retries[i].waiters == 0 {
		l.retries = slices.Delete(l.retries, i, i+1)
	}
}
