package sim

import (
	"bytes"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// stream is one direction of a connection. Its data comes out later, in order.
type stream struct {
	gate *gate // of the process that reads
	slot slot  // in which it reads

	mu       sync.Mutex
	changed  chan struct{} // closed at the next change; nil without a waiter
	parts    []piece
	ended    bool // the last piece is an end
	closed   bool // by the reader
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
	p.at, p.sent = s.slot.from(p.at), time.Now()
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
		return s.slot.after(first.at)
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

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if !t.IsZero() {
		s.deadline = s.slot.after(t)
	}
	s.changeLocked()
}

func (s *stream) read(p []byte) (int, error) {
	for {
		s.gate.pass(s.slot)
		s.mu.Lock()
		now := time.Now()
		var wake time.Time
		if len(s.parts) > 0 {
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

// waitFor waits for the change, or for the time unless it is zero.
func waitFor(changed <-chan struct{}, wake time.Time) {
	var due <-chan time.Time
	if !wake.IsZero() {
		due = time.After(time.Until(wake))
	}
	select {
	case <-changed:
	case <-due:
	}
}

// conn is one end of a connection.
type conn struct {
	in, out       *stream
	outbound      *direction // of the data that this end writes
	gate          *gate      // of this end's process
	received      func()     // called before this end sees the result of a read
	cut           func(at time.Time)
	local, remote addr
	slow          time.Duration // how long a write takes
}

// connect makes the two ends of a connection from a client to a master.
func connect(up, down *direction, c *client, client, master addr) (clientEnd, masterEnd *conn) {
	toMaster, toClient := &stream{slot: up.slot}, &stream{slot: down.slot, gate: c.gate}
	cut := func(at time.Time) {
		toMaster.put(piece{at: at, end: errReset})
		toClient.put(piece{at: at, end: errReset})
	}
	clientEnd = &conn{in: toClient, out: toMaster, outbound: up, gate: c.gate, received: c.received, cut: cut,
		local: client, remote: master, slow: c.world.plan.gather}
	masterEnd = &conn{in: toMaster, out: toClient, outbound: down, received: func() {}, cut: cut, local: master,
		remote: client}
	return clientEnd, masterEnd
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	c.received()
	return n, err
}

// Write never blocks for the other end: the data under way has no bound. A slow socket takes its
// time.
func (c *conn) Write(p []byte) (int, error) {
	if c.slow > 0 {
		time.Sleep(time.Until(c.outbound.slot.after(time.Now().Add(c.slow))))
	}
	c.gate.pass(c.outbound.slot)
	c.in.mu.Lock()
	closed := c.in.closed
	c.in.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	at, lost := c.outbound.carry()
	if lost {
		c.cut(at)
	} else if c.outbound.up {
		c.out.put(piece{at: at, data: bytes.Clone(p)})
	} else {
		for i, part := range split(p) {
			c.out.put(piece{at: at, data: part, alone: i > 0})
		}
	}
	return len(p), nil
}

// split cuts data before each reply to a request for a grant: two flows whose requests are both
// decided by one read must not learn of that at one instant.
func split(p []byte) [][]byte {
	var parts [][]byte
	from, at := 0, 0
	for line := range bytes.Lines(p) {
		if at > from && answersGrant(p[at:]) {
			parts, from = append(parts, bytes.Clone(p[from:at])), at
		}
		at += len(line)
	}
	return append(parts, bytes.Clone(p[from:]))
}

// answersGrant reports whether a reply is one of acquire's: a token, which has more digits than
// other numbers, or a refusal.
func answersGrant(reply []byte) bool {
	if bytes.HasPrefix(reply, []byte(":")) {
		return bytes.IndexByte(reply, '\r') > 10
	}
	return slices.ContainsFunc([]string{"*3\r\n$4\r\nheld\r\n", "*2\r\n$11\r\nquarantined\r\n", "*2\r\n$8\r\nreleased\r\n",
		"*3\r\n$6\r\nmarker\r\n"}, func(refusal string) bool { return bytes.HasPrefix(reply, []byte(refusal)) })
}

// Close ends this end's reads at once. Its written data is still under way.
func (c *conn) Close() error {
	c.in.close()
	at, _ := c.outbound.carry()
	c.out.put(piece{at: at, end: io.EOF})
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }
func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *conn) LocalAddr() net.Addr               { return c.local }
func (c *conn) RemoteAddr() net.Addr              { return c.remote }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }
