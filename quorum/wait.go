package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// waitlist holds the queues of a Locker and of the Lockers that With makes of it: one for each set
// of names that calls of Lock wait for. Package waiting decides which waiter attempts, and when;
// here the waiters sleep, wake and attempt.
type waitlist struct {
	core    *core
	mu      sync.Mutex
	queues  map[nameSet]*queue
	waiters int // in all queues
	// free has some to use again, so that names without contention cost no allocation.
	free []*queue

	// saidShort: the last attempt by a call of Lock failed because nodes were missing, and the log has
	// said so.
	saidShort  bool
	quietUntil clock.Instant // about calls that wait for nodes
}

// maxFree bounds how many queues are kept to be used again.
const maxFree = 256

// quietFor is the least time between two lines of the log that calls wait for nodes: attempts may
// fail and succeed by turns.
const quietFor = 10 * time.Second

// queue holds this process's waiters for one set of names, in FIFO order, and the subscriptions
// that wake them.
type queue struct {
	list  *waitlist
	key   nameSet
	first waiter // the waiter for which the queue was made

	// Under list.mu.
	waiting.Queue
	subscribed bool     // one of the waiters has subscribed, for all of them
	cancels    []func() // of the subscriptions
	lastError  *Error   // of the last attempt; nil before one has ended
}

// waiter is one call of Lock.
type waiter struct {
	queue *queue
	waiting.Waiter

	// Under queue.list.mu; nil for a call that has not had to wait.
	wake  chan struct{} // receives a value when the waiter should call begin
	alarm clock.Timer   // sends to wake
}

// join puts a call of Lock at the end of the queue for its names.
func (list *waitlist) join(retry waiting.Retry, names []string, at waiting.Moment) *waiter {
	w, subscribe := list.add(retry, newNameSet(names), at)
	if subscribe {
		w.queue.subscribe(names)
	}
	return w
}

// add reports whether to subscribe before the first attempt, because others come first.
func (list *waitlist) add(retry waiting.Retry, key nameSet, at waiting.Moment) (w *waiter, subscribe bool) {
	list.mu.Lock()
	defer list.mu.Unlock()
	q := list.queues[key]
	if q == nil {
		q = list.newQueueLocked(key, at.Now)
		w = &q.first
	} else {
		w, subscribe = new(waiter), true
	}
	w.queue, w.Owner = q, w
	list.waiters++
	q.Join(&w.Waiter, retry, at)
	if others, released := list.core.history.JustReleased(key.hash(), at); others > 0 && !subscribe {
		q.Yield(others, released)
		q.lastError, subscribe = list.core.unattempted(ErrHeld), true
	}
	q.armLocked(w)
	return w, subscribe
}

func (list *waitlist) newQueueLocked(key nameSet, now clock.Instant) *queue {
	c := list.core
	var q *queue
	if last := len(list.free) - 1; last < 0 {
		q = new(queue)
	} else {
		q, list.free = list.free[last], list.free[:last]
	}
	*q = queue{list: list, key: key}
	q.Init(len(c.nodes), c.need, c.history.FirstApproach(key.hash(), now), c.makeRand)
	list.queues[key] = q
	return q
}

// len returns how many calls wait.
func (list *waitlist) len() int {
	list.mu.Lock()
	defer list.mu.Unlock()
	return list.waiters
}

// begin reports whether an attempt of the waiter is due, and its approach. If none is, w.wake
// receives when begin should be called again.
func (w *waiter) begin(at waiting.Moment) (approach waiting.Approach, due bool) {
	q := w.queue
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if approach, due = q.Begin(&w.Waiter, at); due {
		return approach, true
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	q.armLocked(nil)
	return approach, false
}

// armLocked sets the head's timer to its next attempt, also when that is now. awake is a waiter
// that needs no timer because it is about to call begin; nil for none.
func (q *queue) armLocked(awake *waiter) {
	head, at, ok := q.Next()
	if !ok || head.Owner == awake {
		return
	}
	w := head.Owner.(*waiter)
	in := max(at.Sub(q.list.core.clock.Now()), 0)
	if w.alarm != nil {
		w.alarm.Reset(in)
		return
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	wake := w.wake
	w.alarm = q.list.core.clock.AfterFunc(in, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
}

// refused ends a failed attempt of the waiter, which goes on waiting.
func (w *waiter) refused(names []string, r *attemptResult) {
	w.queue.noteRefused(r)
	w.queue.subscribe(names)
}

func (q *queue) noteRefused(r *attemptResult) {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.lastError == nil || r.approach != waiting.ProbeFirst || !r.Held {
		q.lastError = r.err // which has the answers of a quorum, at least
	}
	q.Refused(r.Result, q.list.core.moment())
}

// acquired removes the waiter because its attempt acquired the lock.
func (w *waiter) acquired(lease time.Duration) {
	w.queue.remove(w, func(q *queue) {
		var at waiting.Moment // it counts for the next waiter only
		if !q.Alone() {
			at = q.list.core.moment()
		}
		q.Acquired(lease, at)
		q.list.saidShort = false
		if !q.Empty() {
			q.lastError = q.list.core.unattempted(ErrHeld)
		}
	})
}

// leave removes the waiter because its call gives up.
func (w *waiter) leave() {
	w.queue.remove(w, func(q *queue) { q.Leave(&w.Waiter, q.list.core.moment()) })
}

// remove removes a waiter by an event of package waiting. The last one ends the queue.
func (q *queue) remove(w *waiter, out func(q *queue)) {
	for _, cancel := range q.takeOut(w, out) {
		cancel()
	}
}

// takeOut returns how to cancel the subscriptions of a queue that has ended.
func (q *queue) takeOut(w *waiter, out func(q *queue)) (cancels []func()) {
	list := q.list
	list.mu.Lock()
	defer list.mu.Unlock()
	out(q)
	list.waiters--
	if w.alarm != nil {
		w.alarm.Stop()
	}
	if !q.Empty() {
		q.armLocked(nil)
		return nil
	}
	delete(list.queues, q.key)
	if q.subscribed {
		list.core.history.Unsubscribed(q.key.hash(), q.Others(), list.core.moment())
	} else if len(list.free) < maxFree {
		list.free = append(list.free, q) // no subscriber refers to it, and its one waiter has left
	}
	return q.cancels
}

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

// lock waits in the queue for the names until an attempt acquires them.
func (list *waitlist) lock(ctx context.Context, set *settings, names []string, o *observation) (lock *Lock, err error) {
	c, at := list.core, list.core.moment()
	w := list.join(set.retry, names, at)
	defer func() { // also when code of the caller's panics: a log, a context
		if lock != nil {
			w.acquired(lock.hold.set.lease)
		} else {
			w.leave()
		}
	}()
	for {
		if causes := c.endOfWaiting(ctx); causes != nil {
			return nil, w.gaveUpError(names, causes)
		}
		approach, due := w.begin(at)
		if !due {
			select {
			case <-w.wake:
			case <-ctx.Done():
			case <-c.closed:
			}
			at = c.moment()
			continue
		}
		o.attempting()
		held, r := c.attempt(ctx, set, names, approach)
		o.attempted(held, r)
		if held != nil {
			return held, nil
		}
		if ctx.Err() != nil || r.err.permanent() {
			if last := w.lastError(); r.cut && last != nil { // the attempt before found out more
				return nil, w.errorOf(last, names, c.endOfWaiting(ctx))
			}
			r.err.noteEnd(ctx) // it may have ended since the attempt was undone
			return nil, r.err
		}
		c.nameHolder(r.err, c.holders.Inquire)
		names = slices.Clone(names) // the caller's slice may change while the call waits
		w.refused(names, r)
		at = c.moment()
		if !(errors.Is(r.err, ErrQuarantined) && c.roster.WaitsForNew()) && list.noteShort(!r.Held) {
			set.log().Warn("quorumlock: waiting for nodes", "names", r.err.Names, "error", r.err)
		}
	}
}

// noteShort notes whether an attempt failed because nodes were missing. It reports whether the log
// should say so: once while that lasts, however many calls wait.
func (list *waitlist) noteShort(short bool) (say bool) {
	list.mu.Lock()
	defer list.mu.Unlock()
	now := list.core.clock.Now()
	if say = short && !list.saidShort && !now.Before(list.quietUntil); say {
		list.quietUntil = now.Add(quietFor)
	}
	list.saidShort = short && (say || list.saidShort)
	return say
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
// which waiter made it.
func (w *waiter) gaveUpError(names []string, causes []error) *Error {
	last := w.lastError()
	switch {
	case last != nil:
	case isOverdue(causes): // the first attempt is under way without an answer
		last = w.queue.list.core.unattempted(ErrUnavailable)
	default:
		last = w.queue.list.core.unattempted()
	}
	return w.errorOf(last, names, causes)
}

// errorOf returns the error of an attempt as that of this waiter, with what is known of the holder.
func (w *waiter) errorOf(attempt *Error, names []string, causes []error) *Error {
	c, e := w.queue.list.core, attempt.forWaiter(names, causes)
	c.nameHolder(e, c.holders.Recall)
	return e
}

func (w *waiter) lastError() *Error {
	list := w.queue.list
	list.mu.Lock()
	defer list.mu.Unlock()
	return w.queue.lastError
}

// subscribe subscribes to the channels of the names on all nodes, once for a queue. A waiter of the
// queue calls it, so the queue does not end meanwhile.
func (q *queue) subscribe(names []string) {
	list := q.list
	list.mu.Lock()
	again := q.subscribed
	q.subscribed = true
	list.mu.Unlock()
	if again {
		return
	}
	cancels := make([]func(), 0, len(q.list.core.nodes)*len(names))
	for i, n := range q.list.core.nodes {
		for k, name := range names {
			s := &subscriber{queue: q, node: i, firstName: k == 0}
			cancels = append(cancels, inside.Of(n).Subscriptions.Subscribe(scripts.Channel(name), s))
		}
	}
	list.mu.Lock()
	defer list.mu.Unlock()
	q.cancels = cancels
}

// subscriber receives the events of one channel on one node ([pubsub.Subscriber]).
type subscriber struct {
	queue     *queue
	node      int
	firstName bool // its channel is that of the first name, which stands for the node
}

var _ pubsub.Subscriber = (*subscriber)(nil)

func (s *subscriber) OnSubscribed() {
	if s.firstName {
		s.dispatch(s.queue.Subscribed)
	}
}

func (s *subscriber) OnUnsubscribed() {
	if s.firstName {
		s.dispatch(s.queue.Unsubscribed)
	}
}

func (s *subscriber) OnMessage() { s.dispatch(s.queue.Message) }

// dispatch passes an event to package waiting, and sets the head's timer anew if that moved its next
// attempt.
func (s *subscriber) dispatch(event func(node int, at waiting.Moment)) {
	q := s.queue
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	_, before, _ := q.Next()
	event(s.node, q.list.core.moment())
	if _, next, _ := q.Next(); next != before {
		q.armLocked(nil)
	}
}
