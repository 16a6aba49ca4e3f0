package integration_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gate forwards connections to a master, which may be exchanged.
type gate struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	target string // empty for nowhere
	closed bool
	ends   map[net.Conn]bool
}

// withGates puts a gate in front of every master of a roster.
func (r *roster) withGates(t *testing.T) *roster {
	t.Helper()
	r.gates = map[string]*gate{}
	for name, m := range r.masters {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		g := &gate{listener: listener, target: m.Addr(), ends: map[net.Conn]bool{}}
		g.running.Go(g.accept)
		t.Cleanup(g.close)
		r.gates[name] = g
	}
	return r
}

// turn leads to another master from now on, and cuts the connections to the last one.
func (g *gate) turn(target string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = target
	g.cutLocked()
}

func (g *gate) cutLocked() {
	for end := range g.ends {
		end.Close()
	}
}

func (g *gate) close() {
	g.listener.Close()
	g.mu.Lock()
	g.closed = true
	g.cutLocked()
	g.mu.Unlock()
	g.running.Wait()
}

func (g *gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.running.Go(func() { g.carry(client) })
	}
}

func (g *gate) carry(client net.Conn) {
	defer client.Close()
	g.mu.Lock()
	target := g.target
	g.mu.Unlock()
	master, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer master.Close()
	g.mu.Lock()
	if g.closed || g.target != target {
		g.mu.Unlock()
		return
	}
	g.ends[client], g.ends[master] = true, true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.ends, client)
		delete(g.ends, master)
	}()

	g.running.Go(func() {
		defer master.Close()
		_, _ = io.Copy(master, client)
	})
	_, _ = io.Copy(client, master)
}
