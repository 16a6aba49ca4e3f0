package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// machine is the computer of one client. One process at a time runs on it. The machine keeps its
// clock and its gate when another process takes over.
type machine struct {
	world *world
	id    int
	rate  float64
	gate  *gate
	clock gatedClock

	callers    *callers
	restarting chan struct{} // holds one restart at a time

	mu      sync.Mutex
	list    []int // the masters of the next process
	started int   // the number of processes so far
	process *client
}

func newMachine(w *world, id int) *machine {
	m := &machine{world: w, id: id, rate: w.plan.clientRate[id], gate: &gate{}, restarting: make(chan struct{}, 1),
		list: w.plan.listOf(id)}
	m.callers = &callers{others: w.plan.newCaller(id, w.plan.flows)}
	m.clock = newGatedClock(m.rate, m.gate, m.callers)
	return m
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
	turn := startSlot + slot(m.id)
	m.restarting <- struct{}{}
	defer func() { <-m.restarting }()
	turn.wait()
	old := m.current()
	if kill {
		old.dead.Store(true)
		for master := range m.world.masters {
			m.world.net.reset(link{m.id, master})
		}
	}
	fresh, err := newClient(m)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process = fresh
	m.mu.Unlock()
	turn.wait()
	old.close()
	return nil
}

// client is one process: a locker with nodes of its own.
type client struct {
	*machine
	number int   // among the machine's processes
	list   []int // of its masters: of each node
	nodes  []*node.Node
	pools  []*redis.Pool
	locker *quorum.Locker
	dead   atomic.Bool // it was killed, and reaches no master
	closed atomic.Bool // or closing

	// The machine's mutex guards the rest.
	live       map[*record]struct{}
	refreshing bool // a refresh of live is due in this instant
}

func newClient(m *machine) (*client, error) {
	p := m.world.plan
	m.mu.Lock()
	m.started++
	c := &client{machine: m, number: m.started, list: m.list, live: map[*record]struct{}{}}
	m.mu.Unlock()
	for _, master := range c.list {
		dial := func(ctx context.Context) (redis.Conn, error) { return c.dial(ctx, master) }
		pool := &redis.Pool{MaxIdle: p.conns, DialContext: dial}
		opts := []node.Option{node.WithTimeout(p.timeoutOf(master)), node.WithMaxLease(p.lease),
			node.WithConns(p.conns), node.WithName(masterName(master)),
			quorumtest.WithNodeRand(p.source("node", m.id, c.number, master)), node.WithLogger(silent)}
		if p.noQuarantine {
			opts = append(opts, node.WithoutQuarantine())
		}
		n, err := node.New(pool, opts...)
		if err != nil {
			return nil, err
		}
		c.nodes, c.pools = append(c.nodes, n), append(c.pools, pool)
	}
	if p.isOperator(m.id) {
		return c, nil
	}
	rule := quorum.Majority
	if p.all {
		rule = quorum.All
	}
	var err error
	c.locker, err = quorum.New(c.nodes, rule, quorumtest.WithClock(m.clock), quorum.WithLease(p.lease),
		quorum.WithRetry(p.unit/20, p.unit/3), quorumtest.WithRand(m.callers), quorum.WithLogger(silent),
		quorum.WithHooks(quorum.Hooks{Attempt: m.world.countProbe}))
	if err != nil {
		c.close()
	}
	return c, err
}

// silent is the clients' logger: masters die all the time.
var silent = slog.New(slog.DiscardHandler)

func (c *client) String() string { return fmt.Sprintf("client%d.%d", c.id, c.number) }

func (c *client) dial(ctx context.Context, master int) (redis.Conn, error) {
	conn, err := c.world.net.dial(ctx, c, master)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: err}
	}
	if c.dead.Load() { // died while it dialled
		conn.Close()
		return nil, errRefused
	}
	timeout := c.world.plan.timeoutOf(master)
	return redis.NewConn(conn, timeout, timeout), nil
}

// close ends the process.
func (c *client) close() {
	c.closed.Store(true)
	if c.locker != nil {
		c.locker.Close()
	}
	for i, n := range c.nodes {
		n.Close()
		c.pools[i].Close()
	}
}

// gate is passed by every action of a client's process. It is shut while the process is paused.
type gate struct {
	mu    sync.Mutex
	until time.Time
}

func (g *gate) shut(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until.Before(until) {
		g.until = until
	}
}

// opens returns when the gate opens, and whether it is shut. A nil gate is always open.
func (g *gate) opens() (at time.Time, shut bool) {
	if g == nil {
		return time.Time{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, time.Now().Before(g.until)
}

// pass waits until the gate is open, and then for the caller's slot.
func (g *gate) pass(s slot) {
	for at, shut := g.opens(); shut; at, shut = g.opens() {
		time.Sleep(time.Until(s.from(at)))
	}
}

// slots is the number of nanoseconds in a turn. In each turn every actor has one nanosecond of its
// own.
//
// Nothing fixes the order of events within one instant of the bubble. So events without a common
// cause must not share an instant: the arrivals on a connection, a flow's actions, and the timers
// of a lock's clock each wait for the next instant of their own.
const slots = 1 << 14

// slot is one actor's nanosecond in every turn.
type slot int64

const (
	faultSlot      slot = 1
	endSlot        slot = 2
	flowSlots      slot = 16      // one for each flow
	startSlot      slot = 48      // of the restart of a client's process
	directionSlots slot = 64      // two for each connection
	timeSlots      slot = 1 << 13 // timersEach for each flow, and the rest for each process
)

// timersEach is how many timers a flow sets before the first slot is used again.
const timersEach = 256

// from returns the slot's first instant at or after t.
func (s slot) from(t time.Time) time.Time {
	return t.Add(time.Duration((int64(s) - t.UnixNano()) & (slots - 1)))
}

// after returns the slot's first instant after t.
func (s slot) after(t time.Time) time.Time { return s.from(t.Add(1)) }

// wait sleeps until the slot's next instant.
func (s slot) wait() { time.Sleep(time.Until(s.after(time.Now()))) }
