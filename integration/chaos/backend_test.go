//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	Kind() string
	Run() string // its name at the container engine
	start(args ...string) (server, error)
	left() ([]string, error) // what must be gone when no server runs
	Close() error
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
	if errors.Is(err, redistest.ErrNoServer) {
		return nil, fmt.Errorf("SKIPPED, needs redis-server, or a container engine: %w", errors.Join(err, without))
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

func (e *engines) start(args ...string) (server, error) {
	m, err := e.Start(args...)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// left leaves out the network and the image: all scenarios share them.
func (e *engines) left() ([]string, error) {
	all, err := e.Left()
	return slices.DeleteFunc(all, func(one string) bool { return !strings.HasPrefix(one, "container") }), err
}

// processes starts each redis-server as a fleet of its own, so that each one has its own arguments.
type processes struct {
	says    string
	running atomic.Int64
}

// lone is the only master of a fleet.
type lone struct {
	*redistest.Master
	fleet *redistest.Fleet
	of    *processes
	once  sync.Once
}

func (p *processes) Kind() string { return p.says }
func (p *processes) Run() string  { return noRun }
func (p *processes) Close() error { return nil }

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
	p.running.Add(1)
	return &lone{Master: fleet.Masters[0], fleet: fleet, of: p}, nil
}

func (p *processes) left() (all []string, err error) {
	if n := p.running.Load(); n > 0 {
		all = append(all, fmt.Sprintf("%d processes", n))
	}
	return all, nil
}

func (l *lone) Stop() error {
	err := l.fleet.Stop()
	l.once.Do(func() { l.of.running.Add(-1) })
	return err
}
