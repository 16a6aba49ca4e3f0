package masters

import (
	"errors"
	"sync"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// process is a master as a process, behind a forwarder: so it keeps its address when another server takes its
// place, and can be cut off.
type process struct {
	args    []string
	forward *forward.Forward

	mu    sync.Mutex
	fleet *redistest.Fleet // of one
}

func startProcess(args ...string) (*process, error) {
	fleet, err := redistest.StartReal(1, args...)
	if err != nil {
		return nil, err
	}
	m := &process{args: args, fleet: fleet}
	if m.forward, err = forward.New(fleet.Masters[0].Addr()); err != nil {
		return nil, errors.Join(err, fleet.Stop())
	}
	return m, nil
}

func (m *process) server() *redistest.Master {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleet.Masters[0]
}

func (m *process) URL() string { return "redis://" + m.forward.Addr() }

func (m *process) Kill() error { return m.server().Kill() }

func (m *process) Start() error { return m.server().Start() }

func (m *process) Replace() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fleet.Stop(); err != nil {
		return err
	}
	fleet, err := redistest.StartReal(1, m.args...)
	if err != nil {
		return err
	}
	m.fleet = fleet
	m.forward.Turn(fleet.Masters[0].Addr())
	m.forward.Heal()
	return nil
}

func (m *process) Freeze() error { return m.server().Freeze() }

func (m *process) Thaw() error { return m.server().Thaw() }

func (m *process) Disconnect() error {
	m.forward.Lose()
	return nil
}

func (m *process) Reconnect() error {
	m.forward.Heal()
	return nil
}

func (m *process) Do(args ...any) (any, error) { return m.server().Do(args...) }

func (m *process) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forward.Close()
	return m.fleet.Stop()
}
