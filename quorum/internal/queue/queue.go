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

// List holds the queues of a Locker and of the Lockers that With makes of it: one for each set
// of names that calls wait for, another for the readers of a name, and one for each semaphore and its
// size. It is safe for concurrent use.
type List struct {
	Engine  *engine.Engine
	History waiting.History
	held    error // of waiters while this process has the lock, or lets others go first

	mu      sync.Mutex
	queues  map[Key]*queue
	waiters int // in all queues

	rngMu   sync.Mutex
	rng     *rand.Rand        // seeds the queues'
	newRand func() *rand.Rand // is seeded
}

// NewList returns a list without waiters. held is the error of those that wait while this process has the lock.
func NewList(e *engine.Engine, source rand.Source, held error) *List {
	list := &List{Engine: e, held: held, queues: map[Key]*queue{}, rng: rand.New(source)}
	list.newRand = list.seeded // one allocation for all queues
	return list
}

// seeded returns the source of jitter for one queue.
func (list *List) seeded() *rand.Rand {
	list.rngMu.Lock()
	defer list.rngMu.Unlock()
	seed := list.rng.Uint64N(1 << 62)
	return rand.New(rand.NewPCG(seed, seed))
}

// Random returns a number from 0 to below−1.
func (list *List) Random(below int) int {
	list.rngMu.Lock()
	defer list.rngMu.Unlock()
	return list.rng.IntN(below)
}

// queue holds this process's waiters for one set of names or one semaphore, in FIFO order, and the
// subscriptions that wake them. Under list.mu.
type queue struct {
	list *List
	key  Key
	waiting.Queue
	subscribed bool          // one of the waiters has subscribed, for all of them
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

// isAwaited reports whether calls wait in that queue of readers.
func (list *List) isAwaited(key Key) bool {
	list.mu.Lock()
	defer list.mu.Unlock()
	return list.queues[key] != nil
}

// armLocked sets the head's timer to its next attempt, even if that is now. awake is a call
// that needs no timer because it is about to call begin; nil for none.
func (q *queue) armLocked(awake *Place) {
	head, at, ok := q.Next()
	if !ok || head.Owner == awake {
		return
	}
	p := head.Owner.(*Place)
	in := max(at.Sub(q.list.Engine.Clock.Now()), 0)
	if p.alarm != nil {
		p.alarm.Reset(in)
		return
	}
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	p.alarm = q.list.Engine.Clock.AfterFunc(in, p.signal)
}

// letGoLocked lets all waiters go, to ask at once: readers do not stand in each other's way.
func (q *queue) letGoLocked() {
	for head, _, waits := q.Next(); waits; head, _, waits = q.Next() {
		p := head.Owner.(*Place)
		q.Leave(head)
		p.goneLocked()
		p.signal()
	}
}
