package containers

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/poll"
)

const (
	port    = "6379"
	doBound = 10 * time.Second // on a busy machine
)

var errStopped = errors.New("stopped")

// Master is one Redis master in a container. Its methods are safe for concurrent use.
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
	if err := m.unplug(); err != nil {
		return err
	}
	if err := m.plug(); err != nil {
		return err
	}
	return m.awaitPong()
}

// Addr returns host:port, the same over the master's whole life.
func (m *Master) Addr() string { return m.address.String() + ":" + port }

// Kill ends the server with SIGKILL, paused or not. Its disk stays.
func (m *Master) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, client := m.id, m.engine.pool.Client
	err := client.KillContainer(dc.KillContainerOptions{ID: id, Signal: dc.SIGKILL})
	// The engine does not kill a paused container.
	if err != nil && client.UnpauseContainer(id) == nil {
		err = client.KillContainer(dc.KillContainerOptions{ID: id, Signal: dc.SIGKILL})
	}
	if err == nil {
		_, err = client.WaitContainer(id)
	}
	return m.wrap("kill", err)
}

// Start starts the server again after [Master.Kill], at the same address, and returns when it
// answers PING.
func (m *Master) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return m.wrap("start", errStopped)
	}
	if err := m.engine.pool.Client.StartContainer(m.id, nil); err != nil {
		return m.wrap("start", err)
	}
	return m.wrap("start", m.awaitPong())
}

// Replace ends the server for good, whatever its state, and starts another at the same address, with
// nothing on its disk. It returns when that one answers PING.
func (m *Master) Replace() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return m.wrap("replace", errStopped)
	}
	if err := m.remove(); err != nil {
		return m.wrap("replace", err)
	}
	return m.wrap("replace", m.create())
}

// Become ends the server for good. Another master's takes its address, and that one ends.
func (m *Master) Become(other *Master) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	if err := m.remove(); err != nil {
		return m.wrap("replace", err)
	}
	m.id, other.id, other.stopped = other.id, "", true
	defer m.engine.giveBack(other.address)
	if err := m.unplug(); err != nil {
		return m.wrap("disconnect", err)
	}
	if err := m.plug(); err != nil {
		return m.wrap("reconnect", err)
	}
	return m.wrap("replace", m.awaitPong())
}

// Freeze pauses the container: the kernel still accepts connections and bytes for it, nothing
// answers.
func (m *Master) Freeze() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	for range tries {
		err = m.engine.pool.Client.PauseContainer(m.id)
		// On a busy machine the engine gives up before all threads have stopped, and lets them go on. It
		// refuses, for good, to pause what does not run.
		if failed, ok := errors.AsType[*dc.Error](err); !ok || failed.Status != http.StatusInternalServerError {
			break
		}
		time.Sleep(tryEvery)
	}
	return m.wrap("pause", err)
}

// Thaw continues a paused container.
func (m *Master) Thaw() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap("unpause", m.engine.pool.Client.UnpauseContainer(m.id))
}

// Disconnect takes the master off the network: everything sent to it is lost, also on existing
// connections.
func (m *Master) Disconnect() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap("disconnect", m.unplug())
}

// Reconnect puts the master back, at the same address.
func (m *Master) Reconnect() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap("reconnect", m.plug())
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

// Do sends one command over a connection of its own; dial, write and read each give up after 10 s.
func (m *Master) Do(args ...any) (any, error) {
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialConnectTimeout(doBound), redis.DialReadTimeout(doBound),
		redis.DialWriteTimeout(doBound))
	if err != nil {
		return nil, fmt.Errorf("containers: %s: %w", m.Addr(), err)
	}
	defer conn.Close()
	reply, err := conn.Do(args[0].(string), args[1:]...)
	if err != nil {
		return nil, fmt.Errorf("containers: %s: %w", m.Addr(), err)
	}
	return reply, nil
}

// awaitPong returns when the server answers PING.
func (m *Master) awaitPong() error {
	var err error
	if !poll.Until(reachBound, func() bool {
		var conn redis.Conn
		conn, err = redis.Dial("tcp", m.Addr(), redis.DialConnectTimeout(200*time.Millisecond), redis.DialReadTimeout(200*time.Millisecond))
		if err == nil {
			_, err = conn.Do("PING")
			conn.Close()
		}
		return err == nil
	}) {
		return fmt.Errorf("no reply to PING within %v: %w", reachBound, err)
	}
	return nil
}

// Stop removes the container, running or not. A second call does nothing.
func (m *Master) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil
	}
	m.stopped = true
	defer m.engine.giveBack(m.address)
	return m.wrap("stop", m.remove())
}

// remove removes the container, if there is one.
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

func (m *Master) wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("containers: %s %s: %w", action, m.Addr(), err)
}
