// Package forward stands between clients and a server that tests kill, replace and cut off: clients keep
// one address.
package forward

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const dialBound = 500 * time.Millisecond

// Forward forwards connections to its target. Its methods are safe for concurrent use.
type Forward struct {
	listener net.Listener
	running  sync.WaitGroup

	mu                sync.Mutex
	targets           []string
	turns             int // of new connections, to the targets in turn
	cuts              int
	requests, replies way
	closed            bool
	conns             map[net.Conn]bool
	held              map[string]bool // words; see Hold
	released          *sync.Cond      // a word is released, or all is closed
}

// link is one connection, with the first bytes that its client said.
type link struct{ said []byte }

const remembered = 512

// locked does something while no other method does.
func (f *Forward) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// way is one direction.
type way struct {
	loses           bool
	latency, jitter time.Duration
	part            float64 // of all chunks; they take extra longer
	extra           time.Duration
}

// New forwards from a free port of 127.0.0.1.
func New(target string) (*Forward, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return From(listener, target), nil
}

// From forwards from a listener, which it closes.
func From(listener net.Listener, target string) *Forward {
	f := &Forward{listener: listener, targets: []string{target}, conns: map[net.Conn]bool{}, held: map[string]bool{}}
	f.released = sync.NewCond(&f.mu)
	f.running.Go(f.accept)
	return f
}

func (f *Forward) Addr() string { return f.listener.Addr().String() }

// Turn forwards to another target from now on, and cuts the connections to the last one.
func (f *Forward) Turn(target string) {
	f.locked(func() { f.targets = []string{target}; f.cutLocked() })
}

// Lead forwards new connections to other targets, in turn as a balancer does. Existing ones stay, as they do where an
// address moves.
func (f *Forward) Lead(targets ...string) { f.locked(func() { f.targets, f.turns = targets, 0 }) }

// Lose loses everything in both directions, as a partition of the network does: connections stay open,
// and new ones are accepted, but nobody answers.
func (f *Forward) Lose() { f.locked(func() { f.requests.loses, f.replies.loses = true, true }) }

func (f *Forward) LoseRequests() { f.locked(func() { f.requests.loses = true }) }

func (f *Forward) LoseReplies() { f.locked(func() { f.replies.loses = true }) }

// DelayRequests delays what clients say by latency, give or take jitter.
func (f *Forward) DelayRequests(latency, jitter time.Duration) {
	f.locked(func() { f.requests.latency, f.requests.jitter = latency, jitter })
}

// DelaySome delays a part of what clients say, and what follows it, by extra more.
func (f *Forward) DelaySome(part float64, extra time.Duration) {
	f.locked(func() { f.requests.part, f.requests.extra = part, extra })
}

// Hold holds back, in both directions, what connections carry whose clients began with a text with this word: all
// connections if it is empty. Nothing is lost, and no end is told that the other one closed, until Release.
func (f *Forward) Hold(word string) { f.locked(func() { f.held[word] = true }) }

// Release ends Hold. What was held back arrives, late.
func (f *Forward) Release(word string) {
	f.locked(func() { delete(f.held, word); f.released.Broadcast() })
}

// Heal ends all faults, but for Hold. What was lost stays lost, so Heal cuts the connections if anything may have been.
func (f *Forward) Heal() {
	f.locked(func() {
		if f.requests.loses || f.replies.loses {
			f.cutLocked()
		}
		f.requests, f.replies = way{}, way{}
	})
}

// Close cuts all connections, and returns when no goroutine is left.
func (f *Forward) Close() {
	f.listener.Close()
	f.locked(func() { f.closed = true; f.cutLocked(); f.released.Broadcast() })
	f.running.Wait()
}

func (f *Forward) cutLocked() {
	f.cuts++
	for conn := range f.conns {
		conn.Close()
	}
}

func (f *Forward) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.running.Go(func() { f.carry(client) })
	}
}

// carry forwards one connection. Data that a client sent before it closed its end still arrives.
func (f *Forward) carry(client net.Conn) {
	defer client.Close()
	cuts, loses, ok := f.keep(client)
	if !ok {
		return
	}
	defer f.forget(client)
	var target string
	f.locked(func() { target = f.targets[f.turns%len(f.targets)]; f.turns++ })
	if loses {
		_, _ = io.Copy(io.Discard, client) // until a cut
		return
	}
	server, err := net.DialTimeout("tcp", target, dialBound)
	if err != nil {
		return
	}
	defer server.Close()
	defer f.forget(server)
	if now, _, ok := f.keep(server); !ok || now != cuts {
		return
	}
	var requests sync.WaitGroup
	of := &link{}
	requests.Go(func() {
		f.copy(server, client, &f.requests, of)
		_ = server.(*net.TCPConn).CloseWrite() // the server answers the received requests, then closes its end
	})
	f.copy(client, server, &f.replies, of)
	client.Close()
	requests.Wait()
}

// copy copies what is not lost, after its delay, until one end is closed.
func (f *Forward) copy(to, from net.Conn, by *way, of *link) {
	type chunk struct {
		data []byte
		came time.Time
	}
	chunks, broken := make(chan chunk, 1024), make(chan struct{})
	f.running.Go(func() {
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				select {
				case chunks <- chunk{data[:n], time.Now()}:
				case <-broken:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	defer f.waitWhileHeld(of) // the end of the connection comes after what was held back
	for c := range chunks {
		var now way
		f.locked(func() {
			if by == &f.requests && len(of.said) < remembered {
				of.said = append(of.said, c.data...)
			}
		})
		f.waitWhileHeld(of)
		f.locked(func() { now = *by })
		delay := now.latency + time.Duration((2*rand.Float64()-1)*float64(now.jitter))
		if rand.Float64() < now.part {
			delay += now.extra
		}
		if delay > 0 {
			time.Sleep(time.Until(c.came.Add(delay)))
			f.locked(func() { now = *by })
		}
		if now.loses {
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			from.Close()
			close(broken)
			return
		}
	}
}

func (f *Forward) waitWhileHeld(of *link) {
	held := func() bool {
		for word := range f.held {
			if bytes.Contains(of.said, []byte(word)) {
				return true
			}
		}
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed && held() {
		f.released.Wait()
	}
}

// keep registers an end of a connection for a later cut. It returns false when the end must be closed at
// once.
func (f *Forward) keep(end net.Conn) (cuts int, loses, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, false, false
	}
	f.conns[end] = true
	return f.cuts, f.requests.loses, true
}

func (f *Forward) forget(end net.Conn) { f.locked(func() { delete(f.conns, end) }) }
