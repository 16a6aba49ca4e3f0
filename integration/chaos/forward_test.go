//go:build unix

package chaos

import (
	"io"
	"net"
	"sync"
	"time"
)

const forwardDial = 500 * time.Millisecond

// forward stands between a proxy of toxiproxy and a master. The proxy dials one connection after
// the other. Each dial lasts as long as the kernel tries, which is minutes for a master that left
// the network, and the proxy cannot change its target meanwhile.
type forward struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	target string
	closed bool
	conns  map[net.Conn]bool
}

func newForward(target string) (*forward, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forward{listener: listener, target: target, conns: map[net.Conn]bool{}}
	f.running.Go(f.accept)
	return f, nil
}

func (f *forward) addr() string { return f.listener.Addr().String() }

// turn forwards to another target from now on, and cuts the connections to the last one.
func (f *forward) turn(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	f.cutLocked()
}

func (f *forward) close() {
	f.listener.Close()
	f.mu.Lock()
	f.closed = true
	f.cutLocked()
	f.mu.Unlock()
	f.running.Wait()
}

func (f *forward) cutLocked() {
	for conn := range f.conns {
		conn.Close()
	}
}

func (f *forward) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.running.Go(func() { f.carry(client) })
	}
}

// carry forwards one connection. Data that a client sent before it closed its end still arrives.
func (f *forward) carry(client net.Conn) {
	defer client.Close()
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	master, err := net.DialTimeout("tcp", target, forwardDial)
	if err != nil {
		return
	}
	defer master.Close()
	if !f.keep(target, client, master) {
		return
	}
	defer f.forget(client, master)
	var requests sync.WaitGroup
	requests.Go(func() {
		_, _ = io.Copy(master, client)
		_ = master.(*net.TCPConn).CloseWrite() // the master answers the received requests, then closes its end
	})
	_, _ = io.Copy(client, master)
	client.Close()
	requests.Wait()
}

// keep registers the two ends for a later cut. It returns false when they must be closed at once.
func (f *forward) keep(target string, ends ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.target != target {
		return false
	}
	for _, end := range ends {
		f.conns[end] = true
	}
	return true
}

func (f *forward) forget(ends ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range ends {
		delete(f.conns, end)
	}
}
