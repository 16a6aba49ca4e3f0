package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

var (
	errReset   = fmt.Errorf("world: %w", syscall.ECONNRESET)
	errRefused = fmt.Errorf("world: %w", syscall.ECONNREFUSED)
)

// conn is one end of a connection.
type conn struct {
	in, out       *stream
	process       *Process // of this end; nil for a master's
	local, remote addr
}

// connect makes the two ends of a connection from a process to a master.
func (p *Process) connect(master int) (ours, theirs *conn) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	number := p.dialed[master]
	p.dialed[master]++
	up := &stream{way: w.way(p.Number, master, number, true)}
	down := &stream{way: w.way(p.Number, master, number, false), gate: p.gate}
	up.far, down.far = p.far[master], p.far[master]
	client, server := addr(fmt.Sprintf("%s:%d", p.Name, number+1)), addr(Address(master))
	ours = &conn{in: down, out: up, process: p, local: client, remote: server}
	theirs = &conn{in: up, out: down, local: server, remote: client}
	for _, s := range []*stream{up, down} {
		for _, v := range w.windows {
			if v.hits(&s.way) {
				s.blocked++
			}
		}
	}
	w.conns = append(w.conns, ours)
	return ours, theirs
}

// Dial connects the process to a master. It takes as long as a fault keeps the two apart, or the master from answering.
func (p *Process) Dial(ctx context.Context, master int) (net.Conn, error) {
	ours, theirs := p.connect(master)
	if err := p.shakeHands(ctx, ours, theirs); err != nil {
		theirs.in.close() // first: then the world forgets the connection
		ours.Close()
		return nil, &net.OpError{Op: "dial", Net: ours.local.Network(), Addr: ours.remote, Err: err}
	}
	return ours, nil
}

func (p *Process) shakeHands(ctx context.Context, ours, theirs *conn) error {
	up, down := ours.out, ours.in
	up.slot.Wait()
	p.gate.pass(up.slot)
	if p.dead.Load() {
		return errRefused
	}
	if err := up.arrive(ctx); err != nil {
		return err
	}
	if err := p.world.Serve(up.master, theirs); err != nil {
		return err
	}
	if err := down.arrive(ctx); err != nil {
		return err
	}
	if p.dead.Load() { // it was killed while it dialed
		return errRefused
	}
	return nil
}

// arrive sends nothing on the way, and waits until it comes out. The caller's context may end at an instant of others; the dial
// sees that in its slot.
func (s *stream) arrive(ctx context.Context) error {
	at, _ := s.carry()
	s.put(piece{at: at})
	stop := context.AfterFunc(ctx, func() { s.setDeadline(time.Now()) })
	_, err := s.read(nil)
	if !stop() {
		return ctx.Err()
	}
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if c.process != nil && c.process.Received != nil {
		c.process.Received()
	}
	return n, err
}

// Write never blocks for the other end: the data under way has no bound. It waits while this end's process is paused.
func (c *conn) Write(p []byte) (int, error) {
	out := c.out
	if c.process != nil {
		if sky := out.world.weather; sky != nil && sky.Gather > 0 {
			time.Sleep(time.Until(out.slot.After(time.Now().Add(sky.Gather))))
		}
		c.process.gate.pass(out.slot)
		if sends := c.process.Sends; sends != nil && !sends(out.master, p) {
			return len(p), nil
		}
	}
	if c.in.isClosed() {
		return 0, net.ErrClosed
	}
	switch at, lost := out.carry(); {
	case lost:
		c.cut(at)
	case out.up || out.slot == 0:
		out.put(piece{at: at, data: bytes.Clone(p)})
	default:
		for i, part := range split(p) {
			out.put(piece{at: at, data: part, alone: i > 0})
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

// cut ends both directions, when what was sent before has arrived.
func (c *conn) cut(at time.Time) {
	c.in.put(piece{at: at, end: errReset})
	c.out.put(piece{at: at, end: errReset})
}

// Close ends this end's reads at once. What it has written is still under way, and may arrive late.
func (c *conn) Close() error {
	if c.in.isClosed() {
		return nil
	}
	c.in.close()
	at, _ := c.out.carry()
	c.out.put(piece{at: at, end: io.EOF})
	if c.out.isClosed() { // the other end is, too
		c.in.world.forgetClosed()
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }
func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *conn) LocalAddr() net.Addr               { return c.local }
func (c *conn) RemoteAddr() net.Addr              { return c.remote }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }
