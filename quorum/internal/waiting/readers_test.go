package waiting

import "testing"

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
	next := new(Waiter)
	s.Join(next, usual, s.at())
	s.Acquired(lastPoll, s.at())
	if got := approach(); got.Reserves() {
		t.Error("the next waiter keeps readers back before it has met any")
	}
}
