package quorumtest

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// process is what a locker's process shares: its clock, its connections, and its pauses.
type process struct {
	*world.Process
	masters *fleet
}

func (f *fleet) newProcess() *process {
	f.starter.Helper()
	f.checkBubble()
	rate := 0.0
	if f.exploration != nil {
		rate = f.exploration.newRate()
	}
	return &process{f.world.NewProcessAt("", rate), f}
}

func (p *process) options() []quorum.Option {
	nodeOpts := append([]node.Option{node.WithDialer(p.dial)}, p.masters.nodeOpts...)
	opts := []quorum.Option{WithClock(checkedClock{p.Clock, p.masters}), quorum.WithLogger(p.masters.logger),
		inside.Option[quorum.Option](func(s *inside.Settings) { s.Nests = p.masters.orders.note })}
	if p.masters.exploration != nil {
		opts = append(opts, WithRand(p))
		nodeOpts = append(nodeOpts, WithNodeRand(p.masters.world.Source("probes", p.Number)))
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
		time.AfterFunc(d, p.Process.Pause())
		p.Pass()
	}
}

// Work stands in for work that takes d: it lets d pass, and returns when the locker's process is not paused. Under
// [Explore] some calls of Work pause the process.
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
	p.Pass()
}

func (m *Masters) processOf(locker *quorum.Locker) *process {
	m.tb.Helper()
	m.checkBubble()
	m.lockersMu.Lock()
	defer m.lockersMu.Unlock()
	p := m.lockers[locker]
	if p == nil {
		m.tb.Errorf("quorumtest: only a locker of Masters.Locker can stand still: give it to the service")
	}
	return p
}

// Run has serve run in a process of its own, with a locker like those of [Masters.Locker], which is closed when serve
// returns. The context ends at the end of the test. Under [Explore] it also ends when the process is killed, or is to end
// in good order: then another one takes its place, and runs serve again. A killed process reaches no master any longer,
// and the other one does not wait for it.
//
// Run does not wait. What it returns does, until serve has returned in a process that may go on.
func (m *Masters) Run(serve func(context.Context, *quorum.Locker), opts ...quorum.Option) (wait func()) {
	m.tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &service{masters: m, serve: serve, opts: opts, ends: make(chan bool, 1), done: make(chan struct{})}
	p := m.newProcess()
	if m.exploration != nil {
		m.exploration.add(p.Number, s)
	}
	locker := m.openIn(p, quorum.Majority, opts)
	m.tb.Cleanup(func() { stop(); <-s.done })
	go s.run(ctx, p, locker)
	return func() { <-s.done }
}

// service is what Run runs.
type service struct {
	masters *Masters
	serve   func(context.Context, *quorum.Locker)
	opts    []quorum.Option
	ends    chan bool     // has the process end: true if it is killed
	done    chan struct{} // closed when no process runs
}

// replace has another process take the place of this one, unless that is about to happen.
func (s *service) replace(kill bool) {
	select {
	case s.ends <- kill:
	default:
	}
}

func (s *service) run(ctx context.Context, p *process, locker *quorum.Locker) {
	defer close(s.done)
	var killed sync.WaitGroup
	defer killed.Wait()
	for {
		its, end := context.WithCancel(ctx)
		served := make(chan struct{})
		go func() {
			defer close(served)
			defer locker.Close()
			s.serve(its, locker)
		}()
		select {
		case <-served:
			end()
			return
		case kill := <-s.ends:
			if end(); kill {
				p.Kill()
				killed.Go(func() { <-served })
			} else {
				<-served
			}
		}
		if ctx.Err() != nil { // the test is over
			return
		}
		p = &process{p.Next(), p.masters}
		locker = s.masters.openIn(p, quorum.Majority, s.opts)
	}
}

// checkedClock is a process' clock.
type checkedClock struct {
	clock.Clock
	masters *fleet
}

// Now comes first in each use of a lock.
func (c checkedClock) Now() clock.Instant {
	c.masters.checkBubble()
	return c.Clock.Now()
}
