// Package queue holds the calls of this process that wait for locks. Each has a [Place]: it sleeps there until an
// attempt is due, and says how the attempt went. Package waiting decides which of them attempts, and when.
package queue

import (
	"math/rand/v2"
	"sync"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// NewList returns a list without waiters.
func NewList(cfg Config) *List { return &List{Config: cfg, queues: map[Key]*queue{}} }

// Config is what a List needs. All fields are required.
type Config struct {
	Engine    *engine.Engine
	History   *waiting.History
	NewRand   func() *rand.Rand // makes the source of jitter for one queue
	HeldError func() error      // the error of waiters while this process has the lock, or lets others go first
}

// List holds the queues of a Locker and of the Lockers that With makes of it: one for each set
// of names that calls wait for, another for the readers of a name, and one for each semaphore and its
// size. It is safe for concurrent use.
type List struct {
	Config
	mu      sync.Mutex
	queues  map[Key]*queue
	waiters int // in all queues
	// spare has some to use again, so that names without contention cost no allocation.
	spare []*queue
}

// maxFree bounds how many queues are kept to be used again.
const maxFree = 256

// queue holds this process's waiters for one set of names or one semaphore, in FIFO order, and the
// subscriptions that wake them.
type queue struct {
	list  *List
	key   Key
	first waiter // the waiter for which the queue was made

	// Under list.mu.
	waiting.Queue
	subscribed bool          // one of the waiters has subscribed, for all of them
	ended      bool          // it has no waiters
	cancels    []func()      // of the subscriptions
	lastError  error         // of the last attempt; nil before one has ended
	published  int           // a node that published the last release since an attempt began; −1 for none
	reserved   []reservation // that may stand on nodes; nil once the names are acquired
}

// reservation is what a failed attempt may have left on nodes, until it has expired on each: on a node that answered
// late it began later.
type reservation struct {
	by    *engine.Hold
	until clock.Instant
}

// waiter is one call that waits.
type waiter struct {
	queue   *queue
	slots   int // how many slots of a semaphore the call wants; 0 for names
	waiting waiting.Waiter

	// Under queue.list.mu. wake and alarm are nil for a call that has not had to wait.
	gone  bool          // a reader that has left the queue to ask at once, because another acquired the name
	wake  chan struct{} // receives a value when the waiter should call begin
	alarm clock.Timer   // sends to wake
}

// join puts a call at the end of its queue. If subscribe is true, the call must subscribe before its first attempt,
// because others come first.
func (list *List) join(want Wanted, retry waiting.Retry, at waiting.Moment) (w *waiter, subscribe bool) {
	list.mu.Lock()
	defer list.mu.Unlock()
	key := want.Key()
	q := list.queues[key]
	if q == nil {
		if q = list.newQueueLocked(key, at.Now); want.Slots() > 0 {
			q.Share()
		}
		w = &q.first
	} else {
		w, subscribe = new(waiter), true
	}
	w.queue, w.waiting.Owner, w.slots = q, w, want.Slots()
	list.waiters++
	at.Queues = len(list.queues)
	q.Join(&w.waiting, retry, at)
	if others, released := list.History.JustReleased(key.hash, at); others > 0 && !subscribe {
		q.Yield(others, released)
		q.lastError, subscribe = list.HeldError(), true
	}
	q.armLocked(w)
	return w, subscribe
}

func (list *List) newQueueLocked(key Key, now clock.Instant) *queue {
	e := list.Engine
	var q *queue
	if last := len(list.spare) - 1; last < 0 {
		q = new(queue)
	} else {
		q, list.spare = list.spare[last], list.spare[:last]
	}
	*q = queue{list: list, key: key, published: -1}
	q.Init(e.Quorum, list.History.FirstApproach(key.hash, now), list.NewRand)
	list.queues[key] = q
	return q
}

// momentLocked returns the present, with the number of queues.
func (list *List) momentLocked() waiting.Moment {
	at := list.Engine.Moment()
	at.Queues = len(list.queues)
	return at
}

// Len returns how many calls wait.
func (list *List) Len() int {
	list.mu.Lock()
	defer list.mu.Unlock()
	return list.waiters
}

// begin reports whether an attempt of the waiter is due. If none is, wake receives when begin should be called again.
func (w *waiter) begin(at waiting.Moment) (t Due, due bool) {
	q := w.queue
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if t.Approach, due = q.Begin(&w.waiting, at); due {
		t.Published, q.published = q.published, -1
		return t, true
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	q.armLocked(nil)
	return t, false
}

// armLocked sets the head's timer to its next attempt, even if that is now. awake is a waiter
// that needs no timer because it is about to call begin; nil for none.
func (q *queue) armLocked(awake *waiter) {
	head, at, ok := q.Next()
	if !ok || head.Owner == awake {
		return
	}
	w := head.Owner.(*waiter)
	in := max(at.Sub(q.list.Engine.Clock.Now()), 0)
	if w.alarm != nil {
		w.alarm.Reset(in)
		return
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.alarm = q.list.Engine.Clock.AfterFunc(in, w.signal)
}

// refused ends a failed attempt of the head, which goes on waiting.
func (q *queue) refused(r waiting.Result, approach waiting.Approach, err error) {
	q.list.mu.Lock()
	defer q.list.mu.Unlock() // even if the caller's source of randomness panics
	if q.lastError == nil || !approach.Probes() || !r.Held {
		q.lastError = err // which has the answers of a quorum, at least
	}
	q.Refused(r, q.list.momentLocked())
}

// letGoLocked lets all waiters go: readers do not stand in each other's way.
func (q *queue) letGoLocked() {
	for head, _, waits := q.Next(); waits; head, _, waits = q.Next() {
		w := head.Owner.(*waiter)
		q.Leave(head)
		q.list.waiters--
		w.gone = true
		if w.alarm != nil {
			w.alarm.Stop()
		}
		if w.wake == nil { // its first begin comes after this
			w.wake = make(chan struct{}, 1)
		}
		w.signal()
	}
}

// isGone reports whether the waiter has left its queue to ask at once.
func (w *waiter) isGone() bool {
	w.queue.list.mu.Lock()
	defer w.queue.list.mu.Unlock()
	return w.gone
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// isAwaited reports whether calls wait in that queue of readers.
func (list *List) isAwaited(key Key) bool {
	list.mu.Lock()
	defer list.mu.Unlock()
	return list.queues[key] != nil
}

// remove removes a waiter by an event of package waiting. The last one ends the queue.
func (q *queue) remove(w *waiter, out func(q *queue)) {
	for _, cancel := range q.takeOut(w, out) {
		cancel()
	}
}

// takeOut returns functions that cancel the subscriptions, if the queue has ended.
func (q *queue) takeOut(w *waiter, out func(q *queue)) (cancels []func()) {
	list := q.list
	list.mu.Lock()
	defer list.mu.Unlock()
	if w.gone { // it has left, and perhaps the queue has ended
		return nil
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
		list.History.Unsubscribed(q.key.hash, q.Others(), list.Engine.Clock.Now())
	} else if len(list.spare) < maxFree && !q.key.readers { // waiters that were let go may refer to it
		list.spare = append(list.spare, q) // no subscriber refers to it, and its one waiter has left
	}
	return q.cancels
}
