// Package forward stands between clients and a server that tests kill, replace and cut off: clients keep
// one address.
package forward

import (
	"io"
	"net"
	"sync"
	"time"
)

const dialBound = 500 * time.Millisecond

// Forward forwards connections to its target. Its methods are safe for concurrent use.
type Forward struct {
	listener net.Listener
	running  sync.WaitGroup

	mu                          sync.Mutex
	target                      string
	losesRequests, losesReplies bool
	closed                      bool
	conns                       map[net.Conn]bool
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
	f := &Forward{listener: listener, target: target, conns: map[net.Conn]bool{}}
	f.running.Go(f.accept)
	return f
}

// Addr returns the host:port for clients.
func (f *Forward) Addr() string { return f.listener.Addr().String() }

// Turn forwards to another target from now on, and cuts the connections to the last one.
func (f *Forward) Turn(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	f.cutLocked()
}

// Lose loses everything in both directions, as a partition of the network does: connections stay open,
// and new ones are accepted, but nobody answers.
func (f *Forward) Lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losesRequests, f.losesReplies = true, true
}

// LoseReplies loses what the server says.
func (f *Forward) LoseReplies() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losesReplies = true
}

// Heal ends [Forward.Lose] and [Forward.LoseReplies]. What was lost stays lost, so Heal cuts the connections.
func (f *Forward) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losesRequests, f.losesReplies = false, false
	f.cutLocked()
}

// Close cuts all connections, and returns when no goroutine is left.
func (f *Forward) Close() {
	f.listener.Close()
	f.mu.Lock()
	f.closed = true
	f.cutLocked()
	f.mu.Unlock()
	f.running.Wait()
}

func (f *Forward) cutLocked() {
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
	target, loses, ok := f.keep(client)
	if !ok {
		return
	}
	defer f.forget(client)
	if loses {
		_, _ = io.Copy(io.Discard, client) // until a cut
		return
	}
	server, err := net.DialTimeout("tcp", target, dialBound)
	if err != nil {
		return
	}
	defer server.Close()
	if now, _, ok := f.keep(server); !ok || now != target {
		f.forget(server)
		return
	}
	defer f.forget(server)
	var requests sync.WaitGroup
	requests.Go(func() {
		_, _ = io.Copy(lossy{f, server, &f.losesRequests}, client)
		_ = server.(*net.TCPConn).CloseWrite() // the server answers the received requests, then closes its end
	})
	_, _ = io.Copy(lossy{f, client, &f.losesReplies}, server)
	client.Close()
	requests.Wait()
}

// lossy writes to a connection what is not lost.
type lossy struct {
	f     *Forward
	to    net.Conn
	loses *bool
}

func (l lossy) Write(data []byte) (int, error) {
	l.f.mu.Lock()
	loses := *l.loses
	l.f.mu.Unlock()
	if loses {
		return len(data), nil
	}
	return l.to.Write(data)
}

// keep registers an end of a connection for a later cut. It returns false when the end must be closed at
// once.
func (f *Forward) keep(end net.Conn) (target string, loses, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return "", false, false
	}
	f.conns[end] = true
	return f.target, f.losesRequests, true
}

func (f *Forward) forget(end net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, end)
}
