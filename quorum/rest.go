package quorum

import "github.com/quorumlock/quorumlock/quorum/internal/waiting"

// restLocked keeps a queue without waiters for a moment, with its subscriptions, if its next waiter is likely to
// come soon. It reports whether it did.
func (q *queue) restLocked() bool {
	c := q.list.core
	oneName := len(q.cancels) == len(c.nodes) // a release of several is several messages of each node
	if !q.MayRest() || q.key.readers || !oneName {
		return false
	}
	d := waiting.RestSteps * c.moment().Step
	if q.restEnd == nil {
		q.restEnd = c.clock.AfterFunc(d, q.endRest)
	} else {
		q.restEnd.Reset(d)
	}
	return true
}

// endRest ends the queue if it rests. If it is late, it may end the next rest too early: then the next waiter
// subscribes.
func (q *queue) endRest() {
	for _, cancel := range q.takeRested() {
		cancel()
	}
}

func (q *queue) takeRested() (cancels []func()) {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if !q.Empty() || q.ended {
		return nil
	}
	return q.endLocked()
}

// endLocked ends a queue without waiters, and returns how to cancel its subscriptions.
func (q *queue) endLocked() (cancels []func()) {
	list := q.list
	delete(list.queues, q.key)
	q.ended = true
	if q.restEnd != nil {
		q.restEnd.Stop()
	}
	if q.subscribed {
		list.core.history.Unsubscribed(q.key.hash(), q.Others(), list.core.clock.Now())
	} else if len(list.free) < maxFree && !q.key.readers { // waiters that were freed may refer to it
		list.free = append(list.free, q) // no subscriber refers to it, and its one waiter has left
	}
	return q.cancels
}
