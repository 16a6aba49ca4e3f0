// Package events calls functions of the user's that report what has happened, without delay to the
// goroutine in which it happens.
package events

import "sync"

// MaxWaiting bounds how many functions wait in a [Queue].
const MaxWaiting = 1 << 13

// Queue runs functions one after the other, in a goroutine that lives while there are some. The
// zero value is ready for use. It is safe for concurrent use.
type Queue struct {
	mu      sync.Mutex
	waiting []func()
	running chan struct{} // closed when the goroutine ends; nil while none runs
	dropped uint64
}

// Post runs f after the functions that were posted before, and does not wait for it. If
// [MaxWaiting] functions wait, because one of them blocks or is slow, f is dropped. f may block,
// call Post, or end its goroutine: the functions after it still run.
func (q *Queue) Post(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == MaxWaiting {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, f)
	if q.running == nil {
		q.running = make(chan struct{})
		go q.run()
	}
}

func (q *Queue) run() {
	defer func() { // deferred, for a function that ends the goroutine
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.waiting) > 0 {
			go q.run()
			return
		}
		close(q.running)
		q.running = nil
	}()
	for f := q.take(); f != nil; f = q.take() {
		f()
	}
}

// take removes the first function; nil if the queue is empty.
func (q *Queue) take() (first func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	first, q.waiting[0] = q.waiting[0], nil
	q.waiting = q.waiting[1:]
	return first
}

// Dropped returns how many functions were dropped.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Idle returns a channel that is closed when the functions that were posted have run.
func (q *Queue) Idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running != nil {
		return q.running
	}
	none := make(chan struct{})
	close(none)
	return none
}
