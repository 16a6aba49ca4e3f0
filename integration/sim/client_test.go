package sim

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// machine is the computer of one client. One process at a time runs on it. The machine keeps its
// clock and its pauses when another process takes over.
type machine struct {
	world *run
	id    int
	rate  float64
	first *world.Process // on this computer

	restarting chan struct{} // holds one restart at a time

	mu      sync.Mutex
	list    []int // the masters of the next process
	started int   // the number of processes so far
	process *client
}

func newMachine(w *run, id int) *machine {
	rate := w.plan.clientRate[id]
	return &machine{world: w, id: id, rate: rate, first: w.NewProcessAt(fmt.Sprint("client", id), rate),
		restarting: make(chan struct{}, 1), list: w.plan.listOf(id)}
}

// current returns the running process.
func (m *machine) current() *client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// restart ends the process, in good order or by a kill, and starts another one. A killed process
// reaches no master from then on. It still cleans up its own memory, which no other process can
// see.
func (m *machine) restart(kill bool) error {
	turn := startSlot + world.Slot(m.id)
	m.restarting <- struct{}{}
	defer func() { <-m.restarting }()
	turn.Wait()
	old := m.current()
	if kill {
		old.own.Kill()
	}
	if err := m.start(); err != nil {
		return err
	}
	turn.Wait()
	old.close()
	return nil
}

// start starts a process.
func (m *machine) start() error {
	c, err := newClient(m)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = c
	return nil
}

// client is one process: a locker with nodes of its own.
type client struct {
	*machine
	own    *world.Process
	list   []int // of its masters: of each node
	nodes  []*node.Node
	locker *quorum.Locker
	closed atomic.Bool // or closing

	// The machine's mutex guards the rest.
	live       map[*record]struct{}
	refreshing bool // a refresh of live is due in this instant
}

func newClient(m *machine) (*client, error) {
	p := m.world.plan
	m.mu.Lock()
	m.started++
	number := m.started
	c := &client{machine: m, own: m.first, list: m.list, live: map[*record]struct{}{}}
	m.mu.Unlock()
	if number > 1 {
		c.own = m.first.Next()
	}
	c.own.Received = c.received
	for _, master := range c.list {
		opts := []node.Option{node.WithTimeout(p.timeoutOf(master)), node.WithMaxLease(p.lease), node.WithConns(p.conns),
			quorumtest.WithNodeRand(world.Source(p.seed, "node", m.id, number, master)), node.WithLogger(silent),
			inside.Option[node.Option](func(s *inside.Settings) { s.OneProcess = false })}
		if p.noQuarantine {
			opts = append(opts, node.WithoutQuarantine())
		}
		n, err := c.own.Node(master, opts...)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	if p.isOperator(m.id) {
		return c, nil
	}
	rule := quorum.Majority
	if p.all {
		rule = quorum.All
	}
	var err error
	c.locker, err = quorum.New(c.nodes, rule, quorumtest.WithClock(m.first.Clock), quorum.WithLease(p.lease),
		quorum.WithRetry(p.unit/20, p.unit/3), quorumtest.WithRand(m.first), quorum.WithLogger(silent),
		quorum.WithHooks(quorum.Hooks{Attempt: m.world.countProbe}))
	if err != nil {
		c.close()
	}
	return c, err
}

// silent is the clients' logger: masters die all the time.
var silent = slog.New(slog.DiscardHandler)

func (c *client) String() string { return c.own.Name }

// close ends the process.
func (c *client) close() {
	c.closed.Store(true)
	if c.locker != nil {
		c.locker.Close()
	}
	c.own.Close()
}

// slots of what only the simulation does; flows and machines have one each.
const (
	endSlot   = world.TestSlots
	flowSlots = world.TestSlots + 14
	startSlot = world.TestSlots + 46 // of the restart of a client's process
)
