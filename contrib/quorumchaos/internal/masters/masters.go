// Package masters starts Redis masters in containers, or as processes, with the same methods.
package masters

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/containers"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Master is one Redis master. It has the same address over its whole life, unless it has replicas. Its methods are safe
// for concurrent use.
type Master interface {
	Addr() string
	// Kill ends the server with SIGKILL, frozen or not. Its disk stays.
	Kill() error
	// Start starts the server again after Kill, and returns when it answers PING.
	Start() error
	// Replace ends the server for good, whatever its state, and starts another in its place, with nothing on its
	// disk. It returns when that one answers PING.
	Replace() error
	// Become ends the server for good. Another master's takes its place, and that one ends.
	Become(other Master) error
	// Freeze halts the server: the kernel still accepts connections and bytes for it, nothing answers.
	Freeze() error
	// Thaw continues a frozen server.
	Thaw() error
	// Disconnect loses everything between the clients and the server.
	Disconnect() error
	// Reconnect ends Disconnect.
	Reconnect() error
	// Do sends one command.
	Do(args ...any) (any, error)
	// Stop ends the server, whatever its state, and removes its disk.
	Stop() error
}

// Source starts masters of one kind.
type Source struct {
	backstage.Backend
	Start func(args ...string) (Master, error)
	Close func() error
}

// Open returns a source of "containers", of "processes", or with "" of containers if there is a container engine, else
// of processes. Its error, and those of [Clocks] and [WithReplicas], wrap [backstage.ErrNone] if this machine has none.
func Open(kind string) (Source, error) {
	switch kind {
	case "processes":
		return processes(nil)
	case "", "containers":
	default:
		return Source{}, fmt.Errorf("masters are %q: want \"containers\" or \"processes\"", kind)
	}
	engine, err := containers.Open()
	if errors.Is(err, containers.ErrNoEngine) {
		if kind == "" {
			return processes(err)
		}
		return Source{}, fmt.Errorf("%w: %w", backstage.ErrNone, err)
	}
	if err != nil {
		return Source{}, err
	}
	return Source{
		Backend: engine.Backend(),
		Start: func(args ...string) (Master, error) {
			m, err := engine.Start(args...)
			return container{m}, err
		},
		Close: engine.Close,
	}, nil
}

type container struct{ *containers.Master }

func (c container) Become(other Master) error { return c.Master.Become(other.(container).Master) }

// group is a master with replicas, one of which Sentinels name.
type group struct {
	*failover.Master
	stop func() error // of all
}

// WithReplicas starts n masters with replicas, as processes, and returns their URLs, by Sentinels.
func WithReplicas(n, replicas int, args ...string) (all []Master, urls []string, err error) {
	s, err := failover.Start(n, replicas, args...)
	if errors.Is(err, redistest.ErrNoServer) {
		err = fmt.Errorf("%w: %w", backstage.ErrNone, err)
	}
	if err != nil {
		return nil, nil, err
	}
	stop := sync.OnceValue(s.Stop)
	for _, m := range s.Masters() {
		all = append(all, &group{m, stop})
	}
	return all, s.URLs(), nil
}

var errReplicas = errors.New("not of masters with replicas")

func (g *group) Replace() error      { return errReplicas }
func (g *group) Become(Master) error { return errReplicas }
func (g *group) Disconnect() error   { return errReplicas }
func (g *group) Reconnect() error    { return errReplicas }
func (g *group) Stop() error         { return g.stop() }

// Replicated returns the inside of a master with replicas.
func (g *group) Replicated() *failover.Master { return g.Master }
