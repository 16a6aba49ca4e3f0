package world

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// computer is where one process at a time runs. It keeps its clock, its way to the masters, and its pauses when another process
// takes over.
type computer struct {
	Number int         // in the world, from 0 on
	Clock  clock.Clock // of the process: its timers wait while the process is paused

	world  *World
	name   string
	clock  *fakeclock.Clock
	gate   *gate
	flows  sync.Map // of *flow, by the goroutine's id
	noFlow *flow
	far    []time.Duration // by master
	dialed []int           // by master; the world's mutex guards it
	lives  int             // so far
}

// Process is a process with connections of its own.
type Process struct {
	*computer
	Name string // as masters see it in the addresses of its connections

	// Wrap, when set before the first connection, returns what the process' nodes have in place of a connection.
	Wrap func(master int, c net.Conn) net.Conn
	// Sends, when set before the first connection, is called before data goes out to a master, and may wait. If it returns false,
	// the data is lost, and nobody notices.
	Sends func(master int, data []byte) (arrives bool)
	// Received, when set before the first connection, is called before the process sees what it has read.
	Received func()

	dead  atomic.Bool // it was killed
	mu    sync.Mutex
	close []func()
}

// NewProcess starts a process with the world's clock.
func (w *World) NewProcess() *Process { return w.NewProcessAt("", 0) }

// NewProcessAt starts a process of that name, whose clock has that rate: with "" it is named by its number, with 0 it has the
// world's clock.
func (w *World) NewProcessAt(name string, rate float64) *Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.processes)
	c := &computer{Number: n, world: w, name: cmp.Or(name, fmt.Sprint("process", n)), clock: w.Clock, gate: new(gate),
		far: make([]time.Duration, len(w.Masters)), dialed: make([]int, len(w.Masters))}
	if rate != 0 {
		c.clock = fakeclock.New()
		c.clock.SetRate(rate)
		w.clocks = append(w.clocks, c.clock)
	}
	c.noFlow = c.newFlow(0)
	c.Clock = gatedClock{c.clock, c}
	p := c.next()
	w.processes = append(w.processes, p)
	return p
}

func (c *computer) next() *Process {
	c.lives++
	p := &Process{computer: c, Name: c.name}
	if c.lives > 1 {
		p.Name = fmt.Sprint(c.name, ".", c.lives)
	}
	return p
}

// Next starts a process that takes this one's place, on the same computer.
func (p *Process) Next() *Process {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes[p.Number] = p.next()
	return w.processes[p.Number]
}

// Process returns the process that runs on that computer.
func (w *World) Process(number int) *Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[number]
}

// Size returns the number of processes.
func (w *World) Size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.processes)
}

// Far sets how long data takes to the master, and back, on each connection that is made from now on.
func (p *Process) Far(master int, oneWay time.Duration) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.far[master] = oneWay
}

// Kill ends the process: it reaches no master from now on. It still cleans up its own memory, which no other process can see.
func (p *Process) Kill() {
	p.dead.Store(true)
	for master := range p.world.Masters {
		p.world.reset(p.Number, master)
	}
}

// Pause has the process stand still until goOn: it reads, writes and dials no connection, and no timer of its clock fires. All
// of that happens when it goes on. Pass lets the test's own work stand still with it.
func (p *Process) Pause() (goOn func()) {
	p.gate.close()
	return sync.OnceFunc(p.gate.open)
}

// Pass waits while the process is paused.
func (p *Process) Pass() { p.gate.pass(0) }

// PassAt is Pass, and then waits for the slot if it was paused.
func (p *Process) PassAt(s Slot) { p.gate.pass(s) }

// Nodes opens a node for each master, named as [NodeName] says. They end with the world, or with Close.
func (p *Process) Nodes(opts ...node.Option) []*node.Node {
	p.world.tb.Helper()
	var nodes []*node.Node
	for master := range p.world.Masters {
		n, err := p.Node(master, opts...)
		if err != nil {
			p.world.tb.Fatalf("world: %v", err)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Node opens a node for one master.
func (p *Process) Node(master int, opts ...node.Option) (*node.Node, error) {
	pool := &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
		c, err := p.Dial(ctx, master)
		if err != nil {
			return nil, err
		}
		if p.Wrap != nil {
			c = p.Wrap(master, c)
		}
		return redis.NewConn(c, connTimeout, connTimeout), nil
	}}
	usual := []node.Option{node.WithName(NodeName(master)), inside.Option[node.Option](func(s *inside.Settings) { s.OneProcess = true })}
	n, err := node.New(pool, append(usual, opts...)...)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close = append(p.close, func() { pool.Close() }, func() { n.Close() })
	return n, nil
}

// connTimeout is a connection's own, which a node's timeout is mostly below.
const connTimeout = 5 * time.Second

// Close closes the process' nodes.
func (p *Process) Close() {
	p.mu.Lock()
	all := p.close
	p.close = nil
	p.mu.Unlock()
	for _, f := range slices.Backward(all) {
		f()
	}
}
