package masters

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// process is a master as a process, behind a forwarder: so it keeps its address when another server takes its
// place, and can be cut off.
type process struct {
	env, args []string
	forward   *forward.Forward
	running   *atomic.Int64

	mu      sync.Mutex
	fleet   *redistest.Fleet // of one; nil if another master has it
	stopped bool
}

// processes returns a source of processes, which are used for that reason, if it is not nil.
func processes(why error) (Source, error) {
	binary, err := redistest.FindBinary()
	if errors.Is(err, redistest.ErrNoServer) {
		return Source{}, fmt.Errorf("%w: %w", backstage.ErrNone, errors.Join(why, err))
	}
	running := new(atomic.Int64)
	s := Source{Close: func() error { return none(running) }}
	if s.Kind = binary.String() + " processes on loopback"; why != nil {
		s.Kind += fmt.Sprintf(" (%v)", why)
	}
	s.Start = func(args ...string) (Master, error) { return startProcess(running, nil, args) }
	s.Left = func() ([]string, error) { return nil, none(running) }
	return s, err
}

func none(running *atomic.Int64) error {
	if n := running.Load(); n > 0 {
		return fmt.Errorf("masters: %d processes are left", n)
	}
	return nil
}

func startProcess(running *atomic.Int64, env, args []string) (*process, error) {
	m := &process{env: env, args: args, running: running}
	fleet, err := redistest.StartRealWith(env, 1, args...)
	if err != nil {
		return nil, err
	}
	m.fleet = fleet
	if m.forward, err = forward.New(fleet.Masters[0].Addr()); err != nil {
		return nil, errors.Join(err, fleet.Stop())
	}
	running.Add(1)
	return m, nil
}

func (m *process) server() *redistest.Master {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleet.Masters[0]
}

func (m *process) Addr() string { return m.forward.Addr() }
func (m *process) Kill() error  { return m.server().Kill() }
func (m *process) Start() error { return m.server().Start() }

func (m *process) Replace() error {
	fleet, err := redistest.StartRealWith(m.env, 1, m.args...)
	if err != nil {
		return err
	}
	return m.serve(fleet)
}

func (m *process) Become(other Master) error {
	o := other.(*process)
	o.mu.Lock()
	fleet := o.fleet
	o.fleet = nil
	o.mu.Unlock()
	return errors.Join(m.serve(fleet), o.Stop())
}

// serve puts another server in the place of this one, which ends.
func (m *process) serve(fleet *redistest.Fleet) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.fleet.Stop()
	m.fleet = fleet
	m.forward.Turn(fleet.Masters[0].Addr())
	m.forward.Heal()
	return err
}

func (m *process) Freeze() error               { return m.server().Freeze() }
func (m *process) Thaw() error                 { return m.server().Thaw() }
func (m *process) Disconnect() error           { m.forward.Lose(); return nil }
func (m *process) Reconnect() error            { m.forward.Heal(); return nil }
func (m *process) Do(args ...any) (any, error) { return m.server().Do(args...) }

func (m *process) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil
	}
	m.stopped = true
	m.running.Add(-1)
	m.forward.Close()
	if m.fleet == nil {
		return nil
	}
	return m.fleet.Stop()
}
