package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// waitlist holds the queues of a Locker and of the Lockers that With makes of it: one for each set
// of names that calls wait for, another for the readers of a name, and one for each semaphore and its
// size. Package waiting decides which waiter attempts, and when. Here the waiters
// sleep, wake and attempt.
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

// queue holds this process's waiters for one set of names or one semaphore, in FIFO order, and the
// subscriptions that wake them.
type queue struct {
	list  *waitlist
	key   nameSet
	first waiter // the waiter for which the queue was made

	// Under list.mu.
	waiting.Queue
	subscribed bool     // one of the waiters has subscribed, for all of them
	ended      bool     // it has no waiters
	cancels    []func() // of the subscriptions
	lastError  *Error   // of the last attempt; nil before one has ended
	asking     int      // how many of the waiters want the holder to be asked to let go
	published  int      // a node that published the last release since an attempt began; −1 for none
	reserved   []*hold  // of the last attempt that reserved the names on all nodes, and of the probes since; nil once they are acquired
}

// waiter is one call that waits.
type waiter struct {
	queue *queue
	slots *slotsCall // that the call wants; nil for names
	waiting.Waiter

	// Under queue.list.mu. wake and alarm are nil for a call that has not had to wait.
	asks  bool          // it wants the holder to be asked to let go
	freed bool          // a reader that has left the queue to ask at once, because another acquired the name
	wake  chan struct{} // receives a value when the waiter should call begin
	alarm clock.Timer   // sends to wake
}

// join puts a call at the end of the queue for what it wants.
func (list *waitlist) join(set *settings, what wanted, at waiting.Moment) *waiter {
	w, subscribe := list.add(set, what.key(set), what.slots != nil, at)
	w.slots = what.slots
	if subscribe {
		w.queue.subscribe(what.channels())
	}
	return w
}

// add reports whether to subscribe before the first attempt, because others come first.
func (list *waitlist) add(set *settings, key nameSet, slots bool, at waiting.Moment) (w *waiter, subscribe bool) {
	list.mu.Lock()
	defer list.mu.Unlock()
	q := list.queues[key]
	if q == nil {
		if q = list.newQueueLocked(key, at.Now); slots {
			q.Share()
		}
		w = &q.first
	} else {
		w, subscribe = new(waiter), true
	}
	w.queue, w.Owner = q, w
	list.waiters++
	if w.asks = set.request; w.asks {
		q.asking++
	}
	at.Queues = len(list.queues)
	q.Join(&w.Waiter, set.retry, at)
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
	*q = queue{list: list, key: key, published: -1}
	q.Init(len(c.nodes), c.need, c.history.FirstApproach(key.hash(), now), c.makeRand)
	list.queues[key] = q
	return q
}

// momentLocked returns the present, with the number of queues.
func (list *waitlist) momentLocked() waiting.Moment {
	at := list.core.moment()
	at.Queues = len(list.queues)
	return at
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
	w.alarm = q.list.core.clock.AfterFunc(in, w.signal)
}

// takePublished returns a node that has published a release since it was called last; −1 for none.
func (w *waiter) takePublished() (node int) {
	q := w.queue
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	node, q.published = q.published, -1
	return node
}

// refused ends a failed attempt of the waiter, which goes on waiting.
func (w *waiter) refused(what wanted, r *attemptResult) {
	w.queue.noteRefused(r)
	w.queue.subscribe(what.channels())
}

func (q *queue) noteRefused(r *attemptResult) {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.lastError == nil || !r.approach.Probes() || !r.Held {
		q.lastError = r.err // which has the answers of a quorum, at least
	}
	q.Refused(r.Result, q.list.momentLocked())
}

// acquired removes the waiter because its attempt acquired the lock. If another slot may be free, the
// next one attempts at once. asked reports that a waiter behind it wants the new holder to let go.
func (w *waiter) acquired(lease time.Duration) (asked bool) {
	w.queue.remove(w, func(q *queue) {
		var at waiting.Moment // it counts for the next waiter only
		if !q.Alone() {
			at = q.list.momentLocked()
		}
		q.Acquired(lease, at)
		if w.slots != nil && (w.slots.more || q.Woken()) {
			q.Hasten(at)
		}
		q.list.saidShort = false
		if q.reserved != nil { // the grant has deleted what it reserved
			q.reserved = nil
			q.list.core.background.done()
		}
		if q.key.readers {
			q.freeLocked()
		}
		if !q.Empty() {
			q.lastError = q.list.core.unattempted(ErrHeld)
		}
		asked = q.asking > 0
	})
	return asked
}

// freeLocked lets all waiters go: readers do not stand in each other's way.
func (q *queue) freeLocked() {
	at := q.list.core.moment()
	for head, _, waits := q.Next(); waits; head, _, waits = q.Next() {
		w := head.Owner.(*waiter)
		q.Leave(head, at)
		q.list.waiters--
		if w.asks {
			q.asking--
		}
		w.freed = true
		if w.alarm != nil {
			w.alarm.Stop()
		}
		if w.wake == nil { // its first begin comes after this
			w.wake = make(chan struct{}, 1)
		}
		w.signal()
	}
}

// isFreed reports whether the waiter has left its queue to ask at once.
func (w *waiter) isFreed() bool {
	w.queue.list.mu.Lock()
	defer w.queue.list.mu.Unlock()
	return w.freed
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// isAwaited reports whether calls wait in that queue of readers.
func (list *waitlist) isAwaited(key nameSet) bool {
	list.mu.Lock()
	defer list.mu.Unlock()
	return list.queues[key] != nil
}

// leave removes the waiter because its call gives up. If it was the first and wanted several slots, the
// next one attempts at once: there may be enough for that one. If nobody is left, the reservations end.
func (w *waiter) leave() {
	var reserved []*hold
	w.queue.remove(w, func(q *queue) {
		head, _, _ := q.Next()
		at := q.list.momentLocked()
		q.Leave(&w.Waiter, at)
		if head == &w.Waiter && w.slots != nil && w.slots.want > 1 {
			q.Hasten(at)
		}
		if q.Empty() {
			reserved, q.reserved = q.reserved, nil
		}
	})
	for _, h := range reserved {
		h.withdraw()
	}
	if reserved != nil {
		w.queue.list.core.background.done()
	}
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
	if w.freed { // it has left, and perhaps the queue has ended
		return nil
	}
	if w.asks {
		q.asking--
	}
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
	q.ended = true
	if q.subscribed {
		list.core.history.Unsubscribed(q.key.hash(), q.Others(), list.core.clock.Now())
	} else if len(list.free) < maxFree && !q.key.readers { // waiters that were freed may refer to it
		list.free = append(list.free, q) // no subscriber refers to it, and its one waiter has left
	}
	return q.cancels
}

// lock waits in the queue for what is wanted until an attempt acquires it.
func (list *waitlist) lock(ctx context.Context, set *settings, what wanted, o *observation) (lock *Lock, err error) {
	c, at, names := list.core, list.core.moment(), what.names
	var w *waiter
	if !set.isReader() || list.isAwaited(what.key(set)) { // else it asks beside others, until one is refused
		w = list.join(set, what, at)
	}
	defer func() { // also when code of the caller's panics: a log, a context
		switch {
		case w == nil:
		case lock != nil:
			if w.acquired(lock.hold.set.lease) {
				lock.hold.noteAsked()
			}
		default:
			w.leave()
		}
	}()
	for {
		if causes := c.endOfWaiting(ctx); causes != nil {
			return nil, list.gaveUpError(w, set, names, causes)
		}
		if w != nil && w.isFreed() {
			w = nil
		}
		approach, due, published := waiting.Alone, true, -1
		if w != nil {
			approach, due = w.begin(at)
		}
		if !due {
			select {
			case <-w.wake:
			case <-ctx.Done():
			case <-c.closed:
			}
			at = c.moment()
			continue
		}
		if w != nil {
			published = w.takePublished()
		}
		o.attempting()
		held, r := what.attempt(ctx, c, set, approach, published)
		if w != nil && held == nil && r.reserved != nil {
			w.queue.noteReserved(r)
		}
		o.attempted(held, r)
		if held != nil {
			return held, nil
		}
		if ctx.Err() != nil || r.err.permanent() {
			if last := w.lastError(); r.cut && last != nil { // the attempt before found out more
				return nil, list.errorOf(last, set, names, c.endOfWaiting(ctx))
			}
			r.err.noteEnd(ctx) // it may have ended since the attempt was undone
			return nil, r.err
		}
		c.nameHolder(r.err, c.holders.Inquire)
		what.names = slices.Clone(what.names) // the caller's slice may change while the call waits
		names, at = what.names, c.moment()
		if w == nil {
			w = list.join(set, what, at)
			if _, isFirst := w.begin(at); !isFirst {
				continue // the first of the queue attempts for all
			}
		}
		w.refused(what, r)
		w.askToLetGo(what, r)
		at = c.moment()
		if list.noteShort(!r.Held) {
			set.log().Warn("quorumlock: waiting for nodes", "names", r.err.Names, "error", r.err)
		}
	}
}

// noteReserved notes an attempt that may have reserved the names. Close waits until the waiters have left.
func (q *queue) noteReserved(r *attemptResult) {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.reserved == nil {
		q.list.core.background.add()
	}
	if !r.approach.Probes() {
		q.reserved = q.reserved[:0] // it replaces them
	}
	q.reserved = append(q.reserved, r.reserved)
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
