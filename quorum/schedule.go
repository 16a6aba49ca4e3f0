package quorum

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const (
	// coalesce bounds how much earlier than due a lock is renewed, to travel with others.
	coalesce = 10 * time.Millisecond
	// maxSleep bounds the sleep of the schedule while locks are held: timers do not count a suspend of the machine, so
	// that after one the contexts of lost locks end within that time.
	maxSleep = time.Second
	// tickSize bounds how many locks are seen to while the schedule is locked.
	tickSize = 256
)

// schedule renews the locks of a core in time and ends those whose deadline has passed: one timer for all of them, and no
// goroutine while nothing is due.
//
// Lock order: schedule.mu, then hold.mu, then the nodes'.
type schedule struct {
	core *core

	mu     sync.Mutex
	queue  holdQueue
	timer  clock.Timer
	wake   clock.Instant // when the timer fires; Never when it is not set
	closed bool
}

func newSchedule(c *core) *schedule {
	s := &schedule{core: c, wake: clock.Never}
	s.timer = c.clock.AfterFunc(time.Hour, s.run)
	s.timer.Stop()
	return s
}

// add takes a hold that has just become held. It returns false when the schedule is closed.
func (s *schedule) add(h *hold) bool {
	h.mu.Lock()
	next := h.nextLocked(h.begun)
	h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	h.next = next
	heap.Push(&s.queue, h)
	s.armLocked()
	return true
}

// remove takes a hold out. When it returns, a renewal of the hold is in the nodes' pipelines already or will never be sent.
func (s *schedule) remove(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.index >= 0 {
		heap.Remove(&s.queue, h.index)
	}
}

// hasten sees to a hold by then, if it is still scheduled, and not later.
func (s *schedule) hasten(h *hold, by clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.index >= 0 && by.Before(h.next) {
		h.next = by
		heap.Fix(&s.queue, h.index)
		s.armLocked()
	}
}

// close ends the schedule and returns the holds that were in it. The caller stops the timer.
func (s *schedule) close() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	left := s.queue
	s.queue = nil
	for _, h := range left {
		h.index = -1
	}
	return left
}

func (s *schedule) armLocked() {
	if s.closed || len(s.queue) == 0 {
		return
	}
	next := s.queue[0].next
	if s.wake != clock.Never && !next.Before(s.wake) {
		return
	}
	now := s.core.clock.Now()
	sleep := min(max(next.Sub(now), 0), maxSleep)
	s.timer.Reset(sleep)
	s.wake = now.Add(sleep) // not before the timer is set: a clock of the caller's may panic
}

// run is the timer's function.
func (s *schedule) run() {
	s.mu.Lock()
	s.wake = clock.Never
	s.mu.Unlock()
	for s.tick() {
	}
}

// tick sees to some of the holds that are due. It returns true when more may be.
func (s *schedule) tick() (more bool) {
	s.mu.Lock()
	now := s.core.clock.Now()
	// Contexts that must end come first: every lock that is seen to before them is time in which another may be granted.
	var lost, kept []*hold
	for len(lost)+len(kept) < tickSize && len(s.queue) > 0 && s.queue[0].due(now) {
		h := s.queue[0]
		h.mu.Lock()
		switch {
		case h.phase != held:
			heap.Pop(&s.queue)
		case !now.Before(h.until):
			h.loseLocked(h.overdueLocked(now))
			heap.Pop(&s.queue)
			lost = append(lost, h)
		default:
			h.next = h.nextLocked(now)
			heap.Fix(&s.queue, 0)
			kept = append(kept, h)
		}
		h.mu.Unlock()
	}
	r := newRenewal(s.core, now)
	for _, h := range kept {
		h.mu.Lock()
		if h.phase == held && !h.set.fixed {
			r.planLocked(h)
		}
		h.mu.Unlock()
	}
	refused := r.send()
	s.armLocked()
	s.mu.Unlock()

	for _, h := range lost {
		h.letGo()
	}
	s.core.tell(lost...)
	for _, answer := range refused {
		answer()
	}
	return len(lost)+len(kept) == tickSize
}

// due tells whether the hold is to be seen to: when its time has come, or, for a renewal, a little before.
func (h *hold) due(now clock.Instant) bool {
	early := min(coalesce, h.set.lease/30)
	return !now.Before(h.next) || h.renewalNext && h.next.Sub(now) < early
}

// nextLocked is when a hold that has just been seen to needs it again: a third of its lease later, or at its deadline.
func (h *hold) nextLocked(now clock.Instant) clock.Instant {
	renewal := now.Add(h.set.lease / 3)
	h.renewalNext = !h.set.fixed && renewal.Before(h.until)
	if h.renewalNext {
		return renewal
	}
	return h.until
}

// holdQueue is a heap by next.
type holdQueue []*hold

func (q holdQueue) Len() int           { return len(q) }
func (q holdQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q holdQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *holdQueue) Push(x any) {
	h := x.(*hold)
	h.index = len(*q)
	*q = append(*q, h)
}
func (q *holdQueue) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	h.index = -1
	return h
}
