//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/containers"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// server is one master, in a container or as a process.
type server interface {
	Addr() string
	URL() string
	Kill() error  // as a crash; its disk stays
	Start() error // after Kill, at the same address
	Freeze() error
	Thaw() error
	Do(args ...any) (any, error)
	Stop() error
}

// pluggable is a server that can be taken off its network.
type pluggable interface {
	Disconnect() error
	Reconnect() error
}

// backend starts servers.
type backend interface {
	kind() string
	run() string // its name at the container engine
	start(args ...string) (server, error)
	left() ([]string, error) // what must be gone when no server runs
	close() error
}

// openBackend uses containers if there is an engine, else processes.
func openBackend(wanted string) (backend, error) {
	var without error
	if wanted != "processes" {
		engine, err := containers.Open()
		if err == nil {
			return &engines{engine}, nil
		}
		if wanted == "containers" || !errors.Is(err, containers.ErrNoEngine) {
			return nil, err
		}
		without = err
	}
	fleet, err := redistest.StartReal(1)
	if errors.Is(err, redistest.ErrNoServer) && without == nil {
		return nil, fmt.Errorf("SKIPPED, needs redis-server: %w", err)
	}
	if errors.Is(err, redistest.ErrNoServer) {
		return nil, fmt.Errorf("SKIPPED, needs a container engine or redis-server: %w, %w", err, without)
	}
	if err != nil {
		return nil, err
	}
	b := &processes{says: fleet.Kind + " on loopback"}
	if without != nil {
		b.says += " (" + without.Error() + ")"
	}
	return b, fleet.Stop()
}

// noRun is the name of a run without an engine.
const noRun = "-"

type engines struct{ *containers.Engine }

func (e *engines) kind() string { return e.Kind() }
func (e *engines) run() string  { return e.Run() }
func (e *engines) close() error { return e.Close() }

func (e *engines) start(args ...string) (server, error) {
	m, err := e.Start(args...)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// left leaves out the network and the image: all scenarios share them.
func (e *engines) left() ([]string, error) {
	var found []string
	all, err := e.Left()
	for _, one := range all {
		if len(one) > 9 && one[:9] == "container" {
			found = append(found, one)
		}
	}
	return found, err
}

// processes starts each redis-server as a fleet of its own, so that each one has its own arguments.
type processes struct {
	says string

	mu      sync.Mutex
	running int
}

// lone is the only master of a fleet.
type lone struct {
	*redistest.Master
	fleet *redistest.Fleet
	of    *processes
	once  sync.Once
}

func (p *processes) kind() string { return p.says }
func (p *processes) run() string  { return noRun }
func (p *processes) close() error { return nil }

func (p *processes) start(args ...string) (server, error) {
	s, err := p.startWith(nil, args...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (p *processes) startWith(env []string, args ...string) (*lone, error) {
	fleet, err := redistest.StartRealWith(env, 1, args...)
	if err != nil {
		return nil, err
	}
	p.count(1)
	return &lone{Master: fleet.Masters[0], fleet: fleet, of: p}, nil
}

func (p *processes) count(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running += by
}

func (p *processes) left() ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		return nil, nil
	}
	return []string{fmt.Sprintf("%d processes", p.running)}, nil
}

func (l *lone) Stop() error {
	err := l.fleet.Stop()
	l.once.Do(func() { l.of.count(-1) })
	return err
}
