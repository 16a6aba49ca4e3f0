package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ErrEmbedded is what the errors of Freeze and Thaw wrap on an embedded master.
var ErrEmbedded = errors.New("an embedded master has no process to stop or continue")

var (
	errAddressTaken = errors.New("address already in use")
	errNotRunning   = errors.New("not running")
	errRunning      = errors.New("already running")
	errStopped      = errors.New("stopped")
)

const (
	// Longer than a busy machine stands still.
	doBound      = 20 * time.Second // Do
	addressBound = 20 * time.Second // a restart waits this long for its port
	addressRetry = 20 * time.Millisecond
	portsTried   = 5 // the number of ports that a first start tries
)

// server runs at a master's address, over all its lives. [Master] serializes the calls.
type server interface {
	start() error // returns when it answers; wraps errAddressTaken when the port is not free
	kill() error  // wraps errNotRunning when there is nothing to kill
	freeze() error
	thaw() error
	remove() error // called once, after the last kill
}

// Master is one independent Redis master that this process started. Its methods
// are safe for concurrent use.
type Master struct {
	addr string
	held io.Closer // reserves the port while no server listens on it

	mu      sync.Mutex // not held by Do, which must reach the server at any moment
	server  server
	stopped bool
}

// newMaster starts a master at a free port.
func newMaster(fresh func(addr string) (server, error)) (*Master, error) {
	for tried := 1; ; tried++ {
		m, err := newMasterOnce(fresh)
		// If ports cannot be reserved, another process may take it before the server does.
		if errors.Is(err, errAddressTaken) && tried < portsTried {
			continue
		}
		return m, err
	}
}

func newMasterOnce(fresh func(addr string) (server, error)) (*Master, error) {
	port, held, err := ClaimPort()
	if err != nil {
		return nil, fmt.Errorf("redistest: find a free port: %w", err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	srv, err := fresh(addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: prepare %s: %w", addr, err), held.Close())
	}
	m := &Master{addr: addr, held: held, server: srv}
	if err := srv.start(); err != nil {
		return nil, errors.Join(m.wrap("start", err), m.Stop())
	}
	return m, nil
}

// Addr returns host:port. It stays the same over the master's whole life, also after a restart.
func (m *Master) Addr() string { return m.addr }

func (m *Master) URL() string { return "redis://" + m.addr }

// Kill ends the server as a crash would, and returns when it is gone. A process gets SIGKILL,
// frozen or not; an embedded master cuts its connections and loses its data. Kill fails when the
// server does not run, even if it ended by itself.
func (m *Master) Kill() error { return m.alone("kill", m.server.kill) }

// Start starts the server again at the same address, after [Master.Kill] or after it ended by
// itself, and returns when it answers PING. It has a new run id, and no keys unless its arguments
// persist them. Start waits 20 s for a port that is not free yet and 5 s for the answer. It fails
// while the server still runs and after [Master.Stop].
func (m *Master) Start() error {
	return m.alone("start", func() error {
		if m.stopped {
			return errStopped
		}
		for giveUp := time.Now().Add(addressBound); ; time.Sleep(addressRetry) {
			err := m.server.start()
			if !errors.Is(err, errAddressTaken) || time.Now().After(giveUp) {
				return err
			}
		}
	})
}

// Freeze halts the server with SIGSTOP: the kernel still accepts connections and bytes for it,
// nothing answers. The error of an embedded master wraps [ErrEmbedded].
func (m *Master) Freeze() error { return m.alone("freeze", m.server.freeze) }

// Thaw continues a frozen server with SIGCONT: the server then runs the commands it was sent
// meanwhile. The error of an embedded master wraps [ErrEmbedded].
func (m *Master) Thaw() error { return m.alone("thaw", m.server.thaw) }

// Do sends one command over a connection of its own and returns the reply as redigo does: []byte
// for bulk strings, int64, nil, []any. An error reply is a redis.Error in the error's chain. Do
// gives up 20 s after the call. The first argument is the command's name, a string.
func (m *Master) Do(args ...any) (any, error) {
	reply, err := Do(m.addr, doBound, args...)
	if err != nil {
		return nil, fmt.Errorf("redistest: %s: %w", m.addr, err)
	}
	return reply, nil
}

// Stop ends the server, frozen or not, removes its files and frees its port. A second call does
// nothing and returns nil.
func (m *Master) Stop() error {
	return m.alone("stop", func() error {
		if m.stopped {
			return nil
		}
		m.stopped = true
		err := m.server.kill()
		if errors.Is(err, errNotRunning) {
			err = nil
		}
		return errors.Join(err, m.server.remove(), m.held.Close())
	})
}

// alone does something to the server, one action at a time.
func (m *Master) alone(action string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap(action, do())
}

func (m *Master) wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redistest: %s %s: %w", action, m.addr, err)
}

// Do is [Master.Do] at any address: the bound covers dial, write and read together.
func Do(addr string, bound time.Duration, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := redis.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return redis.DoContext(conn, ctx, args[0].(string), args[1:]...)
}
