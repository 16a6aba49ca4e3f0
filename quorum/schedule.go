package quorum

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const (
	// maxSleep bounds the sleep of the schedule while it has entries. Timers do not count the time
	// in which the machine is suspended: after a suspend, the contexts of lost locks end within
	// maxSleep.
	maxSleep = time.Second
	// maxDue bounds how many entries are handled while the schedule's mutex is held.
	maxDue = 256
)

// schedule calls due for entries whose time has come: one for renewals and the ends of locks
// (renewDue), another for second waves (askSecondWaves). It has one timer for all of them, and no
// goroutine while none is due.
//
// Lock order: mu of either schedule, then hold.mu, then the nodes'.
type schedule struct {
	clock clock.Clock
	// due handles entries: it sets when each is due next, or that it is over. It runs with the
	// mutex held, so that its requests are in the pipeline when remove returns. It returns what is
	// left to do without the mutex.
	due func(now clock.Instant, entries []*entry) (after func())

	mu     sync.Mutex
	queue  entryQueue
	timer  clock.Timer
	wake   clock.Instant // when the timer fires; Never when it is not set
	closed bool
}

// entry is the place of a hold, or of an attempt, in a schedule. The schedule's mutex guards it.
type entry struct {
	owner any // the hold or the attempt; any, because a schedule knows neither
	at    clock.Instant
	early time.Duration // how much earlier than at it may be handled, together with others
	over  bool          // set by due: it leaves the schedule
	index int           // in the heap; −1 when it is not in the schedule

	postponed bool // its renewal is due at at, and is not postponed again
}

func newSchedule(c clock.Clock, due func(now clock.Instant, entries []*entry) (after func())) *schedule {
	s := &schedule{clock: c, due: due, wake: clock.Never}
	s.timer = c.AfterFunc(time.Hour, s.run)
	s.timer.Stop()
	return s
}

// add calls ready, which sets when the entry is due, and adds the entry if ready returns true. It
// returns false when ready does, or when the schedule is closed.
func (s *schedule) add(e *entry, ready func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !ready() {
		return false
	}
	heap.Push(&s.queue, e)
	s.armLocked()
	return true
}

// remove removes an entry, if it is in the schedule. When it returns, due has run for the entry or
// never will.
func (s *schedule) remove(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index >= 0 {
		heap.Remove(&s.queue, e.index)
	}
}

// hasten makes an entry due at by, if it is in the schedule and due later.
func (s *schedule) hasten(e *entry, by clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index >= 0 && by.Before(e.at) {
		e.at = by
		heap.Fix(&s.queue, e.index)
		s.armLocked()
	}
}

// len returns how many entries are in the schedule.
func (s *schedule) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// close ends the schedule, and returns the entries that were in it.
func (s *schedule) close() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.Stop()
	left := s.queue
	s.queue = nil
	for _, e := range left {
		e.index = -1
	}
	return left
}

func (s *schedule) armLocked() {
	if s.closed || len(s.queue) == 0 {
		return
	}
	next := s.queue[0].at
	if s.wake != clock.Never && !next.Before(s.wake) {
		return
	}
	now := s.clock.Now()
	sleep := min(max(next.Sub(now), 0), maxSleep)
	s.wake = now.Add(sleep)
	s.timer.Reset(sleep)
}

// run is the timer's function.
func (s *schedule) run() {
	s.mu.Lock()
	s.wake = clock.Never
	s.mu.Unlock()
	for s.runSome() {
	}
}

// runSome handles up to maxDue entries that are due. It returns true when more may be.
func (s *schedule) runSome() (more bool) {
	s.mu.Lock()
	now := s.clock.Now()
	var due []*entry
	for len(due) < maxDue && len(s.queue) > 0 && s.queue[0].isDue(now) {
		due = append(due, heap.Pop(&s.queue).(*entry))
	}
	after := s.due(now, due)
	for _, e := range due {
		if !e.over {
			heap.Push(&s.queue, e)
		}
	}
	s.armLocked()
	s.mu.Unlock()
	after()
	return len(due) == maxDue
}

func (e *entry) isDue(now clock.Instant) bool {
	return !now.Before(e.at) || e.at.Sub(now) < e.early
}

// entryQueue is a heap by at.
type entryQueue []*entry

func (q entryQueue) Len() int           { return len(q) }
func (q entryQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q entryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *entryQueue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}
func (q *entryQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	e.index = -1
	return e
}
