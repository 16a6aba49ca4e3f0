package redistest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Embedded is a server inside this process, from its start to its crash: a *fakeredis.Master, say.
type Embedded interface {
	Serve(conn net.Conn) // until the connection, or the server, ends; at once after that
	Stop()               // returns when nothing is served
}

// embedded has a new server after each kill.
type embedded struct {
	addr     string
	fresh    func() Embedded
	server   Embedded // nil while killed
	listener net.Listener
	accepted chan struct{} // closed when accept has returned
}

func (e *embedded) start() error {
	if e.server != nil {
		return errRunning
	}
	listener, err := net.Listen("tcp4", e.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %w", errAddressTaken, err)
	}
	if err != nil {
		return err
	}
	e.server, e.listener, e.accepted = e.fresh(), listener, make(chan struct{})
	go e.accept()
	return nil
}

const acceptRetry = 10 * time.Millisecond

func (e *embedded) accept() {
	defer close(e.accepted)
	for {
		conn, err := e.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptRetry) // probably out of file descriptors
		default:
			go e.server.Serve(conn)
		}
	}
}

func (e *embedded) kill() error {
	if e.server == nil {
		return errNotRunning
	}
	err := e.listener.Close()
	<-e.accepted
	e.server.Stop()
	e.server = nil
	return err
}

func (e *embedded) freeze() error { return ErrEmbedded }
func (e *embedded) thaw() error   { return ErrEmbedded }
func (e *embedded) remove() error { return nil }
