// Package masters starts Redis masters in containers, or as processes, with the same methods.
package masters

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/containers"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// ErrNone is wrapped by [Open]'s error when there is neither a container engine nor a redis-server.
var ErrNone = errors.New("neither a container engine nor redis-server")

// disk survives a crash of the server.
var disk = []string{"--appendonly", "yes", "--appendfsync", "no"}

// Master is one Redis master. It has the same URL over its whole life. Its methods are safe for concurrent use.
type Master interface {
	URL() string
	// Kill ends the server with SIGKILL, frozen or not. Its disk stays.
	Kill() error
	// Start starts the server again after Kill, and returns when it answers PING.
	Start() error
	// Replace ends the server for good, whatever its state, and starts another in its place, with nothing on its
	// disk. It returns when that one answers PING.
	Replace() error
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
	Kind  string
	Start func() (Master, error)
	Close func() error
}

// Open returns a source of containers if there is a container engine, else of processes.
func Open() (Source, error) {
	engine, err := containers.Open()
	if errors.Is(err, containers.ErrNoEngine) {
		return Processes(err)
	}
	if err != nil {
		return Source{}, err
	}
	start := func() (Master, error) { return engine.Start(disk...) }
	return Source{engine.Kind(), start, engine.Close}, nil
}

// Processes returns a source of processes, which are used for that reason.
func Processes(why error) (Source, error) {
	binary, err := redistest.FindBinary()
	if errors.Is(err, redistest.ErrNoServer) {
		return Source{}, fmt.Errorf("%w: %w; %w", ErrNone, why, err)
	}
	start := func() (Master, error) { return startProcess(disk...) }
	return Source{fmt.Sprintf("%v processes (%v)", binary, why), start, func() error { return nil }}, err
}
