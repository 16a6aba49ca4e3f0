package containers

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	port       = "6379"
	doBound    = 20 * time.Second // of Do, on a busy machine
	routeBound = 5 * time.Second  // until there is a route to a container that was connected again
)

var errStopped = errors.New("stopped")

// Master is one Redis master in a container. Package masters says what its methods do; they are safe for concurrent use.
type Master struct {
	engine  *Engine
	address netip.Addr
	args    []string

	mu      sync.Mutex // not held by Do, which must reach the server at any moment
	id      string     // of the container
	stopped bool
}

// Start starts a master and returns when it answers PING. It keeps nothing on disk unless args say
// otherwise ("--appendonly", "yes"): args come last on its command line.
func (e *Engine) Start(args ...string) (*Master, error) {
	address, err := e.address()
	if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	m := &Master{engine: e, address: address, args: args}
	if err := m.create(); err != nil {
		return nil, errors.Join(m.wrap("start", err), m.Stop())
	}
	return m, nil
}

// create makes a container and moves it to the master's address. An address of the engine's choice
// would change at each start.
func (m *Master) create() error {
	e := m.engine
	command := []string{"redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "no",
		"--dir", "/data", "--loglevel", "warning"}
	resource, err := e.pool.RunWithOptions(&dockertest.RunOptions{
		Repository: e.image.repository, Tag: e.image.tag, Cmd: append(command, m.args...),
		// NetworkID, not the option Networks: that one writes to data that masters share.
		Labels: map[string]string{backstage.Label: e.run}, NetworkID: e.network.Network.ID,
	}, func(host *dc.HostConfig) { host.PublishAllPorts = false })
	if err != nil {
		return err
	}
	m.id = resource.Container.ID
	if err := m.move(); err != nil {
		return err
	}
	return m.awaitPong()
}

// Addr returns host:port, the same over the master's whole life.
func (m *Master) Addr() string { return m.address.String() + ":" + port }

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
	return fmt.Errorf("containers: %s %s: %w", action, m.Addr(), err)
}

func (m *Master) Kill() error {
	return m.alone("kill", func() error {
		client, kill := m.engine.pool.Client, dc.KillContainerOptions{ID: m.id, Signal: dc.SIGKILL}
		err := client.KillContainer(kill)
		// The engine does not kill a paused container.
		if err != nil && client.UnpauseContainer(m.id) == nil {
			err = client.KillContainer(kill)
		}
		if err == nil {
			_, err = client.WaitContainer(m.id)
		}
		return err
	})
}

func (m *Master) Start() error {
	return m.alone("start", func() error {
		if m.stopped {
			return errStopped
		}
		if err := m.engine.pool.Client.StartContainer(m.id, nil); err != nil {
			return err
		}
		return m.awaitPong()
	})
}

func (m *Master) Replace() error {
	return m.alone("replace", func() error {
		if m.stopped {
			return errStopped
		}
		if err := m.remove(); err != nil {
			return err
		}
		return m.create()
	})
}

func (m *Master) Become(other *Master) error {
	return m.alone("replace", func() error {
		other.mu.Lock()
		defer other.mu.Unlock()
		if err := m.remove(); err != nil {
			return err
		}
		m.id, other.id, other.stopped = other.id, "", true
		defer m.engine.giveBack(other.address)
		if err := m.move(); err != nil {
			return err
		}
		return m.awaitPong()
	})
}

// Freeze pauses the container: the kernel still accepts connections and bytes for it, nothing
// answers.
func (m *Master) Freeze() error {
	return m.alone("pause", func() (err error) {
		for range tries {
			err = m.engine.pool.Client.PauseContainer(m.id)
			// On a busy machine the engine gives up before all threads have stopped, and lets them go on. It
			// refuses, for good, to pause what does not run.
			if failed, ok := errors.AsType[*dc.Error](err); !ok || failed.Status != http.StatusInternalServerError {
				break
			}
			time.Sleep(tryEvery)
		}
		return err
	})
}

func (m *Master) Thaw() error {
	return m.alone("unpause", func() error { return m.engine.pool.Client.UnpauseContainer(m.id) })
}

// Disconnect takes the master off the network: everything sent to it is lost, also on existing
// connections.
func (m *Master) Disconnect() error { return m.alone("disconnect", m.unplug) }

func (m *Master) Reconnect() error { return m.alone("reconnect", m.plug) }

// move moves the container to the master's address.
func (m *Master) move() error {
	if err := m.unplug(); err != nil {
		return err
	}
	return m.plug()
}

func (m *Master) unplug() error {
	return m.engine.pool.Client.DisconnectNetwork(m.engine.network.Network.ID,
		dc.NetworkConnectionOptions{Container: m.id, Force: true})
}

func (m *Master) plug() error {
	return m.engine.pool.Client.ConnectNetwork(m.engine.network.Network.ID, dc.NetworkConnectionOptions{
		Container:      m.id,
		EndpointConfig: &dc.EndpointConfig{IPAMConfig: &dc.EndpointIPAMConfig{IPv4Address: m.address.String()}},
	})
}

// Do sends a command. For some time after a container was connected to its network again there may be no route to it.
func (m *Master) Do(args ...any) (reply any, err error) {
	poll.Until(routeBound, func() bool {
		reply, err = redistest.Do(m.Addr(), doBound, args...)
		op, isOfNet := errors.AsType[*net.OpError](err)
		return !isOfNet || op.Op != "dial" || !errors.Is(err, syscall.EHOSTUNREACH)
	})
	return reply, m.wrap("ask", err)
}

func (m *Master) awaitPong() error {
	var err error
	if !poll.Until(reachBound, func() bool {
		_, err = redistest.Do(m.Addr(), 400*time.Millisecond, "PING")
		return err == nil
	}) {
		return fmt.Errorf("no reply to PING within %v: %w", reachBound, err)
	}
	return nil
}

func (m *Master) Stop() error {
	return m.alone("stop", func() error {
		if m.stopped {
			return nil
		}
		m.stopped = true
		defer m.engine.giveBack(m.address)
		return m.remove()
	})
}

func (m *Master) remove() error {
	if m.id == "" {
		return nil
	}
	// The engine refuses while the process that it killed waits for its parent.
	var err error
	for range tries {
		err = m.engine.pool.Client.RemoveContainer(dc.RemoveContainerOptions{ID: m.id, RemoveVolumes: true, Force: true})
		if _, isGone := errors.AsType[*dc.NoSuchContainer](err); err == nil || isGone {
			m.id = ""
			return nil
		}
		time.Sleep(tryEvery)
	}
	return err
}
