package waiting

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// After an acquisition the next waiter attempts at once if more may be had, and else by the poll.
func TestHasten(t *testing.T) {
	at := Moment{Now: clock.Instant(time.Hour), Step: step}
	for _, more := range []bool{true, false} {
		var q Queue
		var first, second Waiter
		q.Init(3, 2, Alone, func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) })
		q.Hasten(at) // of no waiter
		q.Join(&first, usual, at)
		q.Join(&second, usual, at)
		if _, due := q.Begin(&second, at); due {
			t.Fatal("the second waiter attempts before the first")
		}
		if _, due := q.Begin(&first, at); !due {
			t.Fatal("the first attempt is not due")
		}
		q.Hasten(at) // during an attempt
		_, due := q.Begin(&first, at)
		_, _, ok := q.Next()
		testkit.Check(t, !ok && !due, "two attempts at a time")
		q.Acquired(time.Minute, at)
		if more {
			q.Hasten(at)
		}
		if approach, due := q.Begin(&second, at); due != more || due && approach != AskAll {
			t.Errorf("more may be had: %v; the next attempt is due: %v, %v", more, due, approach)
		}
	}
}

// In the queue for a semaphore a position counts one less: the first two processes attempt at once after a
// release, and the second one probes.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		shared bool
		others int
		steps  time.Duration
		as     Approach
	}{
		{false, 0, 0, AskAll}, {false, 1, 1, ProbeFirst}, {false, 3, 3, ProbeFirst},
		{true, 0, 0, AskAll}, {true, 1, 0, ProbeFirst}, {true, 3, 2, ProbeFirst},
	} {
		s := newScenario(t, 3, 2)
		if c.shared {
			s.Share()
		}
		subscribed(0, 1, 2)(s)
		s.begin()
		s.Refused(Result{Held: true, Wait: -1, Listeners: c.others + 1}, s.at())
		s.Message(0, s.at())
		s.Message(1, s.at())
		if _, at, _ := s.Next(); at.Sub(s.now) != c.steps*step || s.approach != c.as {
			t.Errorf("shared %v, %d others: after %v, %v; want %v, %v", c.shared, c.others, at.Sub(s.now), s.approach, c.steps*step, c.as)
		}
	}
}

// The slot that was released last is taken once.
func TestHistoryOfSlots(t *testing.T) {
	const names, others = 7, 7 + 256 // they share a place
	var h History
	testkit.Equal(t, h.TakeSlot(names), -1, "a slot of none")
	h.ReleasedSlot(names, 3)
	h.ReleasedSlot(names, 0)
	h.Released(names, 2, clock.Instant(time.Hour))
	testkit.Equal(t, h.TakeSlot(others), -1, "a slot of another semaphore")
	testkit.Equal(t, h.TakeSlot(names), 0, "the slot that was released last")
	testkit.Equal(t, h.TakeSlot(names), -1, "a slot that was taken")
	h.ReleasedSlot(names, 3)
	h.ReleasedSlot(others, 4)
	testkit.Equal(t, h.TakeSlot(names), -1, "a slot that was driven out")
}

// A writer that readers have refused asks all nodes at once, with its mark, and then in time to refresh
// it. The grant ends that.
func TestAWriterThatMeetsReadersReserves(t *testing.T) {
	s := newScenario(t, 3, 2)
	approach := func() Approach {
		t.Helper()
		head, at, ok := s.Next()
		if !ok {
			t.Fatal("no attempt is to come")
		}
		s.now = max(s.now, at)
		got, due := s.Begin(head, s.at())
		if !due {
			t.Fatal("the attempt has not begun")
		}
		return got
	}
	byReaders := Result{Held: true, Readers: true, Wait: -1}
	if got := approach(); got.Reserves() {
		t.Error("the first attempt keeps readers back")
	}
	for i := range 3 {
		s.Subscribed(i, s.at())
	}
	s.Refused(byReaders, s.at())
	before := s.now
	if got := approach(); !got.Reserves() || got.Probes() || s.now != before {
		t.Errorf("after %v: reserves %v, probes %v", s.now.Sub(before), got.Reserves(), got.Probes())
	}
	for range 3 {
		s.Refused(byReaders, s.at())
		before = s.now
		if got := approach(); !got.Reserves() || got.Probes() || s.now.Sub(before) > ReservationLife/2 || s.now == before {
			t.Errorf("after %v: reserves %v, probes %v", s.now.Sub(before), got.Reserves(), got.Probes())
		}
	}
	s.Refused(Result{Held: true, Wait: -1}, s.at()) // by another writer
	if got := approach(); !got.Reserves() {
		t.Error("a writer that has met readers keeps them back no longer")
	}
	next := new(Waiter)
	s.Join(next, usual, s.at())
	s.Acquired(lastPoll, s.at())
	if got := approach(); got.Reserves() {
		t.Error("the next waiter keeps readers back before it has met any")
	}
}
