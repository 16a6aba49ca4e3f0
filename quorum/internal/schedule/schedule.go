// Package schedule calls a function for entries whose time has come: many entries, one timer.
//
// An [Entry] is part of what it schedules, its owner, and is in one [Schedule] at most. [Schedule.Add]
// adds it, [Schedule.Hasten] makes it due earlier, [Schedule.Remove] removes it. When it is due, the
// schedule's function sets when it is due next, or that it is over.
package schedule

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const (
	// maxSleep bounds the sleep of a schedule while it has entries. Timers do not count the time in
	// which the machine is suspended: after a suspend, what is due is handled within maxSleep.
	maxSleep = time.Second
	// maxDue bounds how many entries are handled while the mutex is held.
	maxDue = 256
)

// Schedule is a set of entries whose owners are of type T. It has no goroutine while no entry is
// due. It is safe for concurrent use. The zero Schedule is empty, and nothing can be added to it.
type Schedule[T any] struct {
	clock clock.Clock
	due   Due[T]

	mu    sync.Mutex
	queue queue[T]
	timer clock.Timer   // nil in a schedule that is closed, or was not made by New
	wake  clock.Instant // when the timer fires; Never when it is not set
}

// Due handles the entries that are due at now, perhaps none: for each it sets At and Early again, or Over. It runs
// with the schedule's mutex held, so it must not call the schedule, and it has finished when [Schedule.Remove]
// returns. after is what is left to do without the mutex.
type Due[T any] func(now clock.Instant, entries []*Entry[T]) (after func())

// Entry is the place of its owner in a schedule. While it is in one, only [Due] may change it.
type Entry[T any] struct {
	Owner T
	At    clock.Instant // when it is due
	Early time.Duration // how much earlier than At it may be handled, together with others
	Over  bool          // it leaves the schedule

	place int // in the heap, from 1; 0 when it is in no schedule
}

// New returns an empty schedule. [Schedule.Close] ends it.
func New[T any](c clock.Clock, due Due[T]) *Schedule[T] {
	s := &Schedule[T]{clock: c, due: due, wake: clock.Never}
	s.timer = c.AfterFunc(time.Hour, s.run)
	s.timer.Stop()
	return s
}

// Add calls ready, which sets when the entry is due, with the mutex held. It adds the entry if ready
// returns true. It returns false if ready does, or if the schedule is closed: then ready is not
// called.
func (s *Schedule[T]) Add(e *Entry[T], ready func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil || !ready() {
		return false
	}
	heap.Push(&s.queue, e)
	s.armLocked()
	return true
}

// Remove removes an entry, if it is in the schedule. When it returns, Due has run for the entry or
// never will.
func (s *Schedule[T]) Remove(e *Entry[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.place > 0 {
		heap.Remove(&s.queue, e.place-1)
	}
}

// Hasten makes an entry due at by, if it is in the schedule and due later.
func (s *Schedule[T]) Hasten(e *Entry[T], by clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.place > 0 && by.Before(e.At) {
		e.At = by
		heap.Fix(&s.queue, e.place-1)
		s.armLocked()
	}
}

// Len returns how many entries are in the schedule.
func (s *Schedule[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Close ends the schedule, and returns the owners of the entries that were in it.
func (s *Schedule[T]) Close() (owners []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	for _, e := range s.queue {
		e.place = 0
		owners = append(owners, e.Owner)
	}
	s.queue = nil
	return owners
}

func (s *Schedule[T]) armLocked() {
	if s.timer == nil || len(s.queue) == 0 {
		return
	}
	next := s.queue[0].At
	if s.wake != clock.Never && !next.Before(s.wake) {
		return
	}
	now := s.clock.Now()
	sleep := min(max(next.Sub(now), 0), maxSleep)
	s.wake = now.Add(sleep)
	s.timer.Reset(sleep)
}

// run is the timer's function.
func (s *Schedule[T]) run() {
	s.mu.Lock()
	s.wake = clock.Never
	s.mu.Unlock()
	for more := true; more; {
		var after func()
		more, after = s.handleDue()
		after()
	}
}

// handleDue handles up to maxDue entries that are due. It returns true when more may be.
func (s *Schedule[T]) handleDue() (more bool, after func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var due []*Entry[T]
	for len(due) < maxDue && len(s.queue) > 0 && s.queue[0].isDue(now) {
		due = append(due, heap.Pop(&s.queue).(*Entry[T]))
	}
	after = s.due(now, due)
	for _, e := range due {
		if !e.Over {
			heap.Push(&s.queue, e)
		}
	}
	s.armLocked()
	return len(due) == maxDue, after
}

func (e *Entry[T]) isDue(now clock.Instant) bool {
	return !now.Before(e.At) || e.At.Sub(now) < e.Early
}

// queue is a heap by At ([heap.Interface]).
type queue[T any] []*Entry[T]

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].At.Before(q[j].At) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}
func (q *queue[T]) Push(x any) {
	e := x.(*Entry[T])
	*q = append(*q, e)
	e.place = len(*q)
}
func (q *queue[T]) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	e.place = 0
	return e
}
