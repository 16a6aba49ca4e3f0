package integration_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// gate forwards connections to a master, which may be exchanged.
type gate struct {
	listener net.Listener
	trap     *trap
	running  sync.WaitGroup

	mu     sync.Mutex
	target string // empty for nowhere
	closed bool
	ends   map[net.Conn]bool
}

// withGates puts a gate in front of every master of a roster.
func (r *roster) withGates(t *testing.T, trap *trap) *roster {
	t.Helper()
	r.gates = map[string]*gate{}
	for name, m := range r.masters {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		g := &gate{listener: listener, trap: trap, target: m.Addr(), ends: map[net.Conn]bool{}}
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

// isIdle reports whether no connection is left: the master has carried out all that was sent.
func (g *gate) isIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ends) == 0
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

	marked := make(chan struct{}, 1) // the request at which the trap springs was forwarded here
	var requests sync.WaitGroup
	requests.Go(func() {
		defer master.(*net.TCPConn).CloseWrite() // the master carries out what it was sent, and then closes its end
		g.copy(master, client, func(piece []byte) bool { return g.trap.passes(piece, marked) })
	})
	g.copy(client, master, func([]byte) bool {
		select {
		case <-marked:
			g.trap.spring()
			return false
		default:
			return true
		}
	})
	client.Close()
	requests.Wait()
}

// copy forwards what may pass, until the connection that it comes from ends. What cannot be delivered is lost.
func (g *gate) copy(to, from net.Conn, passes func([]byte) bool) {
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 && (g.trap == nil || passes(piece[:n])) {
			_, _ = to.Write(piece[:n])
		}
		if err != nil {
			return
		}
	}
}

// trap springs at the request with a text that comes as the at-th over all gates: before it is
// forwarded, or when the master has answered it. From then on nothing passes.
type trap struct {
	text string

	mu     sync.Mutex
	at     int
	after  bool // the master answers first
	seen   int
	shut   bool // no more requests with the text pass
	sprung func()
}

// set makes the trap ready; at 0 it counts only.
func (t *trap) set(at int, after bool, sprung func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.after, t.seen, t.shut, t.sprung = at, after, 0, false, sprung
}

func (t *trap) passes(piece []byte, marked chan<- struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !bytes.Contains(piece, []byte(t.text)) { // a request of this size comes in one piece
		return true
	}
	if t.shut {
		return false
	}
	t.seen++
	if t.seen != t.at {
		return true
	}
	t.shut = true
	if t.after {
		marked <- struct{}{}
		return true
	}
	t.sprung()
	return false
}

func (t *trap) spring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sprung()
}
