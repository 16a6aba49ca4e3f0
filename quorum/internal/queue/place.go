package queue

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Place is a call's position in a queue. Readers are in no queue until one is refused. A Place ends with Acquired or
// Leave. It is not safe for concurrent use.
type Place struct {
	list   *List
	want   Wanted
	retry  waiting.Retry
	waiter *waiter // nil for a reader that is in no queue
	at     waiting.Moment
}

// Due says how an attempt that is due is made.
type Due struct {
	Approach  waiting.Approach
	Published int // a node that published the last release since the attempt before; −1 for none
}

// Enter gives a call its place. A reader asks alongside others, until one is refused: then they wait in a queue.
func (list *List) Enter(want Wanted, retry waiting.Retry) Place {
	p := Place{list: list, want: want, retry: retry, at: list.Engine.Moment()}
	if key := want.Key(); !key.readers || list.isAwaited(key) {
		p.join()
	}
	return p
}

func (p *Place) join() {
	var others bool
	if p.waiter, others = p.list.join(p.want, p.retry, p.at); others {
		p.waiter.subscribe(p.want)
	}
}

// Next waits until an attempt is due. It returns false if ctx or the Engine has ended.
func (p *Place) Next(ctx context.Context) (t Due, due bool) {
	for ctx.Err() == nil && !p.list.Engine.IsClosed() {
		if p.waiter != nil && p.waiter.isGone() {
			p.waiter = nil
		}
		if p.waiter == nil {
			return Due{Approach: waiting.Alone, Published: -1}, true
		}
		if t, due = p.waiter.begin(p.at); due {
			return t, true
		}
		select {
		case <-p.waiter.wake:
		case <-ctx.Done():
		case <-p.list.Engine.Closed:
		}
		p.at = p.list.Engine.Moment()
	}
	return t, false
}

// NoteReserved records that a failed attempt, by that hold, may have reserved the names; nil for
// none. Earlier reservations stay recorded: nodes that another writer holds, or that did not
// answer, may still have them. Close waits until the calls of the queue have left.
func (p *Place) NoteReserved(by *engine.Hold) {
	if by == nil {
		return
	}
	q := p.waiter.queue
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
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
	if p.waiter == nil {
		p.at = p.list.Engine.Moment()
		p.join()
		if _, isFirst := p.waiter.begin(p.at); !isFirst {
			return false
		}
	}
	p.waiter.queue.refused(r, approach, err)
	p.waiter.subscribe(p.want)
	p.at = p.list.Engine.Moment()
	return true
}

// LastError returns the error of the queue's last attempt, by any call; nil for none.
func (p *Place) LastError() error {
	if p.waiter == nil {
		return nil
	}
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	return p.waiter.queue.lastError
}

// Acquired ends the place because its attempt acquired the lock. If more slots may be free, the next call attempts at once.
func (p *Place) Acquired(lease time.Duration, more bool) {
	w := p.waiter
	if w == nil {
		return
	}
	w.queue.remove(w, func(q *queue) {
		var at waiting.Moment // it counts for the next waiter only
		if !q.Alone() {
			at = p.list.momentLocked()
		}
		q.Acquired(lease, at)
		if w.slots > 0 && (more || q.Woken()) {
			q.Hasten(at)
		}
		if q.reserved != nil { // a grant deletes its reservation; after a refusal it expires
			q.reserved = nil
			p.list.Engine.Untrack()
		}
		if q.key.readers {
			q.letGoLocked()
		}
		if !q.Empty() {
			q.lastError = p.list.HeldError()
		}
	})
}

// Leave ends the place because the call gives up. If it was the first and wanted several slots, the next call
// attempts at once: there may be enough for it. If nobody is left, the reservations end.
func (p *Place) Leave() {
	w := p.waiter
	if w == nil {
		return
	}
	var reserved []reservation
	w.queue.remove(w, func(q *queue) {
		head, _, _ := q.Next()
		q.Leave(&w.waiting)
		if head == &w.waiting && w.slots > 1 {
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
