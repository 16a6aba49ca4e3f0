package world

import (
	"net"
	"os"
	"sync"
	"time"
)

// stream is one direction of a connection. Its data comes out later, in order.
type stream struct {
	way
	gate *gate // of the process that reads

	mu       sync.Mutex
	changed  chan struct{} // closed at the next change; nil without a waiter
	parts    []piece
	ended    bool // the last piece is an end
	closed   bool // by the reader
	blocked  int  // windows in which nothing comes out
	deadline time.Time
	took     piece // the last piece that was read, without its data
}

// piece is some bytes, or the end of the stream.
type piece struct {
	at    time.Time
	sent  time.Time
	data  []byte
	alone bool // it comes out after the piece before it, even if both were sent together
	end   error
}

// put adds a piece that comes out at its time, or after the piece before it; together with that
// piece if both were sent together.
func (s *stream) put(p piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.closed {
		return
	}
	p.at, p.sent = s.slot.From(p.at), time.Now()
	if n := len(s.parts); n > 0 {
		p.at = s.behind(s.parts[n-1], p)
	}
	s.parts = append(s.parts, p)
	s.ended = p.end != nil
	s.changeLocked()
}

// behind returns the earliest time for a piece that follows another one.
func (s *stream) behind(first, p piece) time.Time {
	switch {
	case p.at.After(first.at):
		return p.at
	case p.sent.Equal(first.sent) && !p.alone:
		return first.at
	default:
		return s.slot.After(first.at)
	}
}

func (s *stream) changeLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.parts = true, nil
	s.changeLocked()
}

func (s *stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// block lets nothing come out until unblock. What would have come out meanwhile then arrives, after some time on its way.
func (s *stream) block() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked++
}

func (s *stream) unblock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked--
	if s.blocked > 0 {
		return
	}
	now := time.Now()
	first := s.slot.From(now.Add(s.late(now)))
	for i, p := range s.parts {
		if p.at.Before(first) {
			s.parts[i].at = first
		}
	}
	s.changeLocked()
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if !t.IsZero() {
		s.deadline = s.slot.After(t)
	}
	s.changeLocked()
}

func (s *stream) read(p []byte) (int, error) {
	for {
		s.gate.pass(s.slot)
		s.mu.Lock()
		now := time.Now()
		var wake time.Time
		if len(s.parts) > 0 && s.blocked == 0 {
			wake = s.behind(s.took, s.parts[0])
		}
		ready := !wake.IsZero() && !now.Before(wake)
		// Data that came in time while the process was paused is found when it wakes, however late
		// that is.
		late := !s.deadline.IsZero() && !now.Before(s.deadline) && !(ready && s.parts[0].at.Before(s.deadline))
		switch {
		case s.closed:
			s.mu.Unlock()
			return 0, net.ErrClosed
		case late:
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case ready:
			n, err := s.takeLocked(p)
			s.mu.Unlock()
			return n, err
		}
		if wake.IsZero() || !s.deadline.IsZero() && s.deadline.Before(wake) {
			wake = s.deadline
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		waitFor(changed, wake)
	}
}

func (s *stream) takeLocked(p []byte) (int, error) {
	first := &s.parts[0]
	if first.end != nil {
		return 0, first.end
	}
	s.took = piece{at: time.Now(), sent: first.sent}
	n := copy(p, first.data)
	first.alone = false // the rest of it follows at once
	if first.data = first.data[n:]; len(first.data) == 0 {
		s.parts = s.parts[1:]
	}
	return n, nil
}

// waitFor waits for the change, or for the time unless it is zero. It does not receive from a timer: see OneProcessor.
func waitFor(changed <-chan struct{}, wake time.Time) {
	if wake.IsZero() {
		<-changed
		return
	}
	due := make(chan struct{})
	timer := time.AfterFunc(time.Until(wake), func() { close(due) })
	defer timer.Stop()
	select {
	case <-changed:
	case <-due:
	}
}
