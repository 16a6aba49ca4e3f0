package redistest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

const acceptRetry = 10 * time.Millisecond

// door lets the clients of an embedded master in, through a listener.
type door struct {
	listener net.Listener
	serve    func(net.Conn)
	accepted chan struct{} // closed when accept has returned
}

// openDoor gives each connection to serve, which must not block, and whose job it is to close it.
func openDoor(listener net.Listener, serve func(net.Conn)) *door {
	d := &door{listener: listener, serve: serve, accepted: make(chan struct{})}
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
		d.serve(conn)
	}
}

// close closes the listener. Connections stay.
func (d *door) close() error {
	err := d.listener.Close()
	<-d.accepted
	return err
}

// listen listens at an embedded master's address. The error wraps errAddressTaken when the port is
// not free.
func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp4", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %w", errAddressTaken, err)
	}
	return listener, err
}
