// Package containers starts and ends Redis masters in containers, on a network of their own. Each
// master keeps its IP address over its whole life: after a kill or a disconnection it comes back at
// the same address.
//
// Everything that the package makes carries a label with the id of the run. A second process of the
// test binary, the reaper, holds a pipe to this one. When the pipe closes, the reaper removes
// everything with that label: after Close, and also after a panic, Ctrl-C or SIGKILL.
package containers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/child"
)

// ErrNoEngine is wrapped by [Open]'s error without a container engine, or without one whose
// containers have reachable addresses.
var ErrNoEngine = errors.New("no container engine")

const (
	reachBound  = 20 * time.Second // from a container's start to the reply to PING, on a busy machine
	networksTry = 5
)

// Engine is a connection to the container engine, a network, and the image of its masters. Its
// methods are safe for concurrent use.
type Engine struct {
	run     string
	pool    *dockertest.Pool
	network *dockertest.Network
	subnet  netip.Prefix
	image   image
	reaper  *child.Janitor

	mu   sync.Mutex
	next netip.Addr   // no container has this address or a higher one
	free []netip.Addr // addresses of removed containers
}

// Open finds the engine by the usual environment variables (DOCKER_HOST, ...) and an image of Redis, and makes a
// network. The error wraps [ErrNoEngine] when no engine can be used. A failed Open leaves nothing behind.
func Open() (*Engine, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("containers: %w: %w", ErrNoEngine, err)
	}
	if err := pool.Client.Ping(); err != nil {
		return nil, fmt.Errorf("containers: %w: %w", ErrNoEngine, err)
	}
	e := &Engine{run: rand.Text(), pool: pool}
	if e.reaper, err = child.StartJanitor(reaperRun, e.run); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	if err := e.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("containers: %w: %w", ErrNoEngine, err), e.Close())
	}
	return e, nil
}

// prepare makes the image and the network, and starts one master to test whether it can be reached.
// Containers of an engine in a virtual machine cannot be reached.
func (e *Engine) prepare() (err error) {
	if e.image, err = findImage(e.pool, e.run); err != nil {
		return err
	}
	if err := e.makeNetwork(); err != nil {
		return err
	}
	probe, err := e.Start()
	if err != nil {
		return err
	}
	return probe.Stop()
}

// makeNetwork makes a network in a range of addresses that the engine finds free. Addresses can be
// chosen only in a network with an explicit range, so makeNetwork makes the network twice.
func (e *Engine) makeNetwork() (taken error) {
	for range networksTry {
		found, err := e.pool.CreateNetwork("quorumlock-"+e.run, e.labelled)
		if err != nil {
			return err
		}
		described, err := e.pool.Client.NetworkInfo(found.Network.ID)
		if err != nil {
			return err
		}
		if err = e.pool.RemoveNetwork(found); err != nil {
			return err
		}
		if len(described.IPAM.Config) == 0 {
			return errors.New("the engine names no range of addresses for its network")
		}
		if e.subnet, err = netip.ParsePrefix(described.IPAM.Config[0].Subnet); err != nil {
			return err
		}
		e.next = e.subnet.Addr()
		for range 10 { // the first few are the gateway's, and those of containers before they move
			e.next = e.next.Next()
		}
		free := e.next.As4()
		free[3] += 118 // .128, where dynamic addresses begin
		e.network, taken = e.pool.CreateNetwork("quorumlock-"+e.run, e.labelled, func(o *dc.CreateNetworkOptions) {
			o.IPAM = &dc.IPAMOptions{Config: []dc.IPAMConfig{{Subnet: e.subnet.String(),
				IPRange: netip.PrefixFrom(netip.AddrFrom4(free), 25).String()}}}
		})
		if taken == nil {
			return nil
		}
	}
	return taken // by another process, each time
}

func (e *Engine) labelled(o *dc.CreateNetworkOptions) {
	o.Labels = map[string]string{backstage.Label: e.run}
}

func (e *Engine) address() (netip.Addr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// The address that has been free for longest: clients may still look for its last owner.
	if len(e.free) > 40 {
		address := e.free[0]
		e.free = e.free[1:]
		return address, nil
	}
	address := e.next
	if address.As4()[3] >= 128 {
		return address, errors.New("out of addresses")
	}
	e.next = address.Next()
	return address, nil
}

func (e *Engine) giveBack(address netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.free = append(e.free, address)
}

// Close removes everything that was made, and waits for the reaper to end.
func (e *Engine) Close() error {
	word, err := done, remove(e.pool.Client, e.run)
	if err != nil {
		word = ""
	}
	e.pool.Client.HTTPClient.CloseIdleConnections()
	return errors.Join(err, e.reaper.Close(word))
}

// Backend describes the engine. What is left are containers, networks and images.
func (e *Engine) Backend() backstage.Backend {
	return backstage.Backend{Kind: "containers of " + e.image.kind, Run: e.run, Image: e.image.repository + ":" + e.image.tag,
		Left: e.left, LeftOf: leftOf}
}

func (e *Engine) left() ([]string, error) { return list(e.pool.Client, e.run) }

func leftOf(run string) ([]string, error) {
	client, err := dc.NewClientFromEnv()
	if err != nil {
		return nil, err
	}
	defer client.HTTPClient.CloseIdleConnections()
	return list(client, run)
}
