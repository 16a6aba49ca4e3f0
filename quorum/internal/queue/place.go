package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Place is a call's position in a queue. Readers are in no queue until one is refused. A Place begins with
// [List.Enter], and ends with Acquired or Leave. It is not safe for concurrent use.
type Place struct {
	list    *List
	want    Wanted
	retry   waiting.Retry
	at      waiting.Moment
	waiting waiting.Waiter
	first   queue // room for the queue, if this call begins it

	// Under list.mu. wake and alarm are nil for a call that has not had to wait.
	queue *queue        // nil for a reader that is in none
	wake  chan struct{} // receives a value when the call should call begin
	alarm clock.Timer   // sends to wake
}

// Due says how an attempt that is due is made.
type Due struct {
	Approach  waiting.Approach
	Published int // a node that published the last release since the attempt before; −1 for none
}

// spare has places to use again, so that names without contention cost no allocation.
var spare = sync.Pool{New: func() any { return new(Place) }}

// Enter gives a call its place. A reader asks alongside others, until one is refused: then they wait in a queue.
func (list *List) Enter(want Wanted, retry waiting.Retry) *Place {
	p := spare.Get().(*Place)
	p.list, p.want, p.retry, p.at = list, want, retry, list.Engine.Moment()
	if key := want.Key; !key.readers || list.isAwaited(key) {
		p.join(&p.first)
	}
	return p
}

func (p *Place) join(room *queue) {
	if othersFirst := p.enqueue(room); othersFirst {
		p.subscribe()
	}
}

// enqueue puts the call at the end of its queue, which is made in that room if there is none. It reports whether the
// call must subscribe before its first attempt, because others come first.
func (p *Place) enqueue(room *queue) (othersFirst bool) {
	list, key := p.list, p.want.Key
	list.mu.Lock()
	defer list.mu.Unlock()
	q := list.queues[key]
	if othersFirst = q != nil; !othersFirst {
		q = room
		*q = queue{list: list, key: key, published: -1}
		q.Init(list.Engine.Quorum, list.History.FirstApproach(key.hash, p.at.Now), list.newRand)
		if p.want.Slots > 0 {
			q.Share()
		}
		list.queues[key] = q
	}
	p.queue, p.waiting.Owner = q, p
	list.waiters++
	p.at.Queues = len(list.queues)
	q.Join(&p.waiting, p.retry, p.at)
	if others, released := list.History.JustReleased(key.hash, p.at); others > 0 && !othersFirst {
		q.Yield(others, released)
		q.lastError, othersFirst = list.held, true
	}
	q.armLocked(p)
	return othersFirst
}

// Next waits until an attempt is due. It returns false if ctx or the Engine has ended.
func (p *Place) Next(ctx context.Context) (t Due, due bool) {
	for ctx.Err() == nil && !p.list.Engine.IsClosed() {
		if t, due = p.begin(p.at); due {
			return t, true
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		case <-p.list.Engine.Lifetime.Done():
		}
		p.at = p.list.Engine.Moment()
	}
	return t, false
}

// begin reports whether an attempt of the call is due. If none is, wake receives when begin should be called again.
func (p *Place) begin(at waiting.Moment) (t Due, due bool) {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	q := p.queue
	if q == nil {
		return Due{Approach: waiting.Alone, Published: -1}, true
	}
	if t.Approach, due = q.Begin(&p.waiting, at); due {
		t.Published, q.published = q.published, -1
		return t, true
	}
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	q.armLocked(nil)
	return t, false
}

func (p *Place) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// NoteReserved records that a failed attempt, by that hold, may have reserved the names; nil for
// none. Earlier reservations stay recorded: nodes that another writer holds, or that did not
// answer, may still have them. Close waits until the calls of the queue have left.
func (p *Place) NoteReserved(by *engine.Hold) {
	if by == nil {
		return
	}
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	q := p.queue
	if q.reserved == nil {
		p.list.Engine.Track()
	}
	now := p.list.momentLocked().Now
	q.reserved = slices.DeleteFunc(q.reserved, func(r reservation) bool { return r.until.Before(now) })
	q.reserved = append(q.reserved, reservation{by, now.Add(2 * waiting.ReservationLife)})
}

// Refused ends a failed attempt, and waits on for messages. It returns false if another call attempts
// for the queue, in which this reader now waits.
func (p *Place) Refused(r waiting.Result, approach waiting.Approach, err error) bool {
	if p.queue == nil { // it is in none that could let it go meanwhile
		p.at = p.list.Engine.Moment()
		p.join(new(queue))
		if _, isFirst := p.begin(p.at); !isFirst {
			return false
		}
	}
	if !p.refused(r, approach, err) {
		return false
	}
	p.subscribe()
	p.at = p.list.Engine.Moment()
	return true
}

// refused ends a failed attempt of the head, which goes on waiting. It returns false for a reader that was let go.
func (p *Place) refused(r waiting.Result, approach waiting.Approach, err error) bool {
	p.list.mu.Lock()
	defer p.list.mu.Unlock() // even if the caller's source of randomness panics
	q := p.queue
	if q == nil {
		return false
	}
	if q.lastError == nil || !approach.Probes() || !r.Held {
		q.lastError = err // which has the answers of a quorum, at least
	}
	q.Refused(r, p.list.momentLocked())
	return true
}

// LastError returns the error of the queue's last attempt, by any call; nil for none.
func (p *Place) LastError() error {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	if p.queue == nil {
		return nil
	}
	return p.queue.lastError
}

// Acquired ends the place because its attempt acquired the lock. If more slots may be free, the next call attempts at once.
func (p *Place) Acquired(lease time.Duration, more bool) {
	p.remove(func(q *queue) {
		var at waiting.Moment // it counts for the next waiter only
		if !q.Alone() {
			at = p.list.momentLocked()
		}
		q.Acquired(lease, at)
		if p.want.Slots > 0 && (more || q.Woken()) {
			q.Hasten(at)
		}
		if q.reserved != nil { // a grant deletes its reservation; after a refusal it expires
			q.reserved = nil
			p.list.Engine.Untrack()
		}
		if q.key.readers {
			q.letGoLocked()
		}
		q.lastError = p.list.held
	})
}

// Leave ends the place because the call gives up. If it was the first and wanted several slots, the next call
// attempts at once: there may be enough for it. If nobody is left, the reservations end.
func (p *Place) Leave() {
	var reserved []reservation
	p.remove(func(q *queue) {
		head, _, _ := q.Next()
		q.Leave(&p.waiting)
		if head == &p.waiting && p.want.Slots > 1 {
			q.Hasten(p.list.momentLocked())
		}
		if q.Empty() {
			reserved, q.reserved = q.reserved, nil
		}
	})
	for _, r := range reserved {
		r.by.Withdraw()
	}
	if reserved != nil {
		p.list.Engine.Untrack()
	}
}

// remove removes the call from its queue, if it is in one, by an event of package waiting. The last one ends the queue.
func (p *Place) remove(out func(q *queue)) {
	cancels, isKnown := p.takeOut(out)
	for _, cancel := range cancels {
		cancel()
	}
	if !isKnown {
		*p = Place{}
		spare.Put(p)
	}
}

// takeOut returns functions that cancel the subscriptions, if the queue has ended. isKnown reports whether a timer, a
// subscriber or another call may know of the place.
func (p *Place) takeOut(out func(q *queue)) (cancels []func(), isKnown bool) {
	list := p.list
	list.mu.Lock()
	defer list.mu.Unlock()
	q := p.queue
	if q == nil {
		return nil, p.wake != nil
	}
	out(q)
	p.goneLocked()
	if !q.Empty() {
		q.armLocked(nil)
		return nil, true
	}
	delete(list.queues, q.key)
	if q.subscribed {
		list.History.Unsubscribed(q.key.hash, q.Others(), list.Engine.Clock.Now())
	}
	return q.cancels, q.subscribed || q != &p.first || p.wake != nil
}

// goneLocked notes that the call has left its queue.
func (p *Place) goneLocked() {
	p.queue = nil
	p.list.waiters--
	if p.alarm != nil {
		p.alarm.Stop()
	}
}
