package redistest

import (
	"errors"
	"net"
	"sync"
	"time"
)

const acceptRetry = 10 * time.Millisecond

// door lets the clients of an embedded master in, through a listener.
type door struct {
	listener net.Listener
	serve    func(net.Conn)
	accepted chan struct{} // closed when accept has returned

	mu    sync.Mutex
	conns map[*doorConn]struct{} // those that are open
}

// openDoor gives each connection to serve, which must not block, and whose job it is to close it.
func openDoor(listener net.Listener, serve func(net.Conn)) *door {
	d := &door{
		listener: listener, serve: serve, accepted: make(chan struct{}), conns: map[*doorConn]struct{}{},
	}
	go d.accept()
	return d
}

func (d *door) accept() {
	defer close(d.accepted)
	for {
		conn, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptRetry) // probably out of file descriptors
			continue
		}
		c := &doorConn{Conn: conn, door: d}
		d.mu.Lock()
		d.conns[c] = struct{}{}
		d.mu.Unlock()
		d.serve(c)
	}
}

// closeForNew closes the listener. Connections stay.
func (d *door) closeForNew() error {
	err := d.listener.Close()
	<-d.accepted
	return err
}

// closeForAll closes the listener and cuts all connections.
func (d *door) closeForAll() error {
	err := d.closeForNew()
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		c.Conn.Close() // the server then calls doorConn.Close
	}
	return err
}

type doorConn struct {
	net.Conn
	door *door
}

func (c *doorConn) Close() error {
	c.door.mu.Lock()
	delete(c.door.conns, c)
	c.door.mu.Unlock()
	return c.Conn.Close()
}
