package quorumtest

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// process is what a locker's process shares: its clock, its connections, and its pauses.
type process struct {
	masters *fleet
	number  int
	clock   *fakeclock.Clock

	mu     sync.Mutex
	dialed map[int]int // by master
	timers int
	until  time.Time // the end of its pause
}

func (f *fleet) newProcess() *process {
	f.starter.Helper()
	f.checkBubble()
	f.processesMu.Lock()
	defer f.processesMu.Unlock()
	p := &process{masters: f, number: len(f.processes), clock: f.clock, dialed: map[int]int{}}
	if f.exploration != nil {
		p.clock = f.exploration.newClock()
	}
	f.processes = append(f.processes, p)
	return p
}

func (p *process) options() []quorum.Option {
	nodeOpts := append([]node.Option{node.WithDialer(p.dial)}, p.masters.nodeOpts...)
	opts := []quorum.Option{WithClock(pausingClock{p.clock, p}), quorum.WithLogger(p.masters.logger)}
	if p.masters.exploration != nil {
		opts = append(opts, WithRand(p.masters.exploration.source("waits", p.number)))
		nodeOpts = append(nodeOpts, WithNodeRand(p.masters.exploration.source("probes", p.number)))
	}
	return append(opts, quorum.WithNodeOptions(nodeOpts...))
}

// Pause has the process of a locker of [Masters.Locker] stand still for d, and returns when it goes
// on: call it when the work would stand still. What the masters send to the process waits until
// then, and so do its renewals. A lease that ended meanwhile has ended by the locker's clock, too:
// Valid returns false. But timers come late, so its context may end a little later.
func (m *Masters) Pause(locker *quorum.Locker, d time.Duration) {
	m.tb.Helper()
	if p := m.processOf(locker); p != nil {
		p.pause(d)
		p.pass()
	}
}

// Work lets d pass, as work takes its time, and returns when the locker's process is not paused.
// Under [Explore] some calls of Work pause the process.
func (m *Masters) Work(locker *quorum.Locker, d time.Duration) {
	m.tb.Helper()
	p := m.processOf(locker)
	if p == nil {
		return
	}
	time.Sleep(d)
	if m.exploration != nil {
		m.exploration.pause(p)
	}
	p.pass()
}

func (m *Masters) processOf(locker *quorum.Locker) *process {
	m.tb.Helper()
	m.checkBubble()
	m.processesMu.Lock()
	defer m.processesMu.Unlock()
	p := m.lockers[locker]
	if p == nil {
		m.tb.Errorf("quorumtest: only a locker of Masters.Locker can stand still: give it to the service")
	}
	return p
}

func (p *process) pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.until) {
		p.until = until
	}
}

func (p *process) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

// pass waits for the end of a pause.
func (p *process) pass() {
	for left := p.left(); left > 0; left = p.left() {
		time.Sleep(left)
	}
}

// pausingClock has the timers of a paused process fire when it goes on.
type pausingClock struct {
	*fakeclock.Clock
	process *process
}

// Now comes first in each use of a lock.
func (c pausingClock) Now() clock.Instant {
	c.process.masters.checkBubble()
	return c.Clock.Now()
}

func (c pausingClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	p := c.process
	turn := p.timerTurn()
	return c.Clock.AfterFunc(d, func() {
		if p.left() <= 0 && p.masters.exploration == nil {
			f()
			return
		}
		go func() { // FastForward must not wait for it
			p.pass()
			p.take(turn)
			f()
		}()
	})
}

// timerTurn returns the turn of the process's next timer.
func (p *process) timerTurn() turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timers++
	return turn(turns/2 + p.number%8*1024 + p.timers%1024)
}

// take waits for a turn if the process is explored.
func (p *process) take(its turn) {
	if p.masters.exploration != nil {
		time.Sleep(its.after(time.Now()))
	}
}
