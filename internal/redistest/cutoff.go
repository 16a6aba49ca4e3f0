package redistest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// errProcess is why a process cannot do what an embedded master can.
var errProcess = errors.New("a process, not an embedded master")

// CutOff closes an embedded master's port and cuts its connections, as a partition of the network
// does. It keeps its keys and its run id, and keys go on expiring. A request that was on its way
// may yet be carried out. CutOff fails when the master does not run or is cut off, and for a
// process.
func (m *Master) CutOff() error {
	return m.withEmbedded("cut off", func(e *embedded) error {
		if e.life == nil || e.life.door == nil {
			return errNotRunning
		}
		err := e.life.door.closeForAll()
		e.life.door = nil
		return err
	})
}

// Reconnect ends [Master.CutOff]: the master answers at its address again when Reconnect returns.
// It waits 20 s for a port that is not free yet. It fails when the master is not cut off.
func (m *Master) Reconnect() error {
	return m.withEmbedded("reconnect", func(e *embedded) error {
		switch {
		case m.stopped:
			return errStopped
		case e.life == nil:
			return errNotRunning
		case e.life.door != nil:
			return errRunning
		}
		return retryAddress(func() error {
			listener, err := listen(e.addr)
			if err == nil {
				e.life.door = openDoor(listener, e.life.mini.Server().ServeConn)
			}
			return err
		})
	})
}

// FastForward moves the clocks of embedded masters ahead by d, also of killed ones and of those
// that are cut off. It calls others first, which moves the clocks of those that count on the
// masters'. No script starts on any master between the two, so none sees that the clocks are apart.
// FastForward fails for processes, without calling others.
func (f *Fleet) FastForward(d time.Duration, others func()) error {
	clocks := make([]*embeddedClock, len(f.Masters))
	for i, m := range f.Masters {
		e, ok := m.server.(*embedded)
		if !ok {
			return m.wrap("fast-forward", errProcess)
		}
		clocks[i] = &e.clock
	}
	for _, c := range clocks {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	others()
	for _, c := range clocks {
		c.ahead += d
	}
	return nil
}

// withEmbedded runs do with mu held.
func (m *Master) withEmbedded(action string, do func(*embedded) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.server.(*embedded)
	if !ok {
		return m.wrap(action, errProcess)
	}
	return m.wrap(action, do(e))
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
