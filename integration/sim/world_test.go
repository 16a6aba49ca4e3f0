package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/integration/history"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// world is one run.
type world struct {
	plan      *plan
	start     time.Time
	trace     *trace
	log       *history.Log
	registers map[string]*history.Register
	masters   []*fakeredis.Master
	net       *network
	machines  []*machine
	ctx       context.Context // of all that clients do; ends when somebody is stranded
	flows     sync.WaitGroup

	mu       sync.Mutex
	failures []string
	counts   map[string]int
	longest  time.Duration // that somebody waited once all was well
	healing  sync.Once
}

// play carries out a plan in a bubble of its own, and returns when nothing of it runs any more.
func play(t *testing.T, p *plan) *world {
	t.Helper()
	w := newWorld(p)
	synctest.Test(t, func(*testing.T) {
		w.build()
		w.run()
	})
	return w
}

func newWorld(p *plan) *world {
	w := &world{plan: p, log: &history.Log{}, registers: map[string]*history.Register{}, counts: map[string]int{}}
	for _, name := range p.names {
		w.registers[name] = &history.Register{}
	}
	return w
}

// build makes the masters and the machines.
func (w *world) build() {
	w.start = time.Now()
	w.trace = &trace{start: w.start}
	for i, rate := range w.plan.masterRate {
		// Masters need not agree on the date.
		origin := w.start.Add(time.Duration(i) * 7 * time.Hour)
		m := fakeredis.New(func() time.Time { return origin.Add(time.Duration(float64(time.Since(w.start)) * rate)) }, w.plan.seed*16+uint64(i))
		m.Trace = w.trace.script(i)
		w.masters = append(w.masters, m)
		if w.plan.ahead {
			w.countAhead(i, m)
		}
	}
	w.net = newNetwork(w.plan, w.start, w.masters)
	for id := range w.plan.clients {
		w.machines = append(w.machines, newMachine(w, id))
	}
}

func (w *world) run() {
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(context.Background())
	defer cancel()

	for _, m := range w.machines { // one after the other, in an order that is always the same
		w.runClient(m)
	}
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		w.breakThings()
	}()
	// Whoever waits must get through, one flow after the other, in the time that each has.
	stranded := time.AfterFunc(w.plan.healed+3*w.plan.bound, func() {
		w.fail("stranded: some flow did not come to an end")
		cancel()
	})
	w.flows.Wait()
	stranded.Stop()
	<-faults
	endSlot.wait()
	w.noOrphans()
	for _, m := range w.machines {
		m.current().close()
	}
	w.stop()
}

func (w *world) stop() {
	for _, m := range w.masters {
		m.Stop()
	}
	w.net.serving.Wait()
}

// countAhead sets the token counters of a master above what clients would begin with, and apart from the other masters', so that
// tokens are counted up, and written back.
func (w *world) countAhead(i int, m *fakeredis.Master) {
	dice := w.plan.dice("counters", uint64(i))
	for _, name := range w.plan.names {
		m.Set("quorumlock:token:"+name, fmt.Sprint(1<<52+dice.IntN(5)))
	}
}

func (w *world) runClient(m *machine) {
	c, err := newClient(m)
	if err != nil {
		w.fail("client %d: %v", m.id, err)
		return
	}
	m.mu.Lock()
	m.process = c
	m.mu.Unlock()
	for i := range w.plan.flows {
		w.flows.Go(w.newFlow(m, i).run)
	}
}

// breakThings does the faults of the plan, and then mends everything.
func (w *world) breakThings() {
	for _, f := range w.plan.faults {
		time.Sleep(time.Until(faultSlot.from(w.start.Add(f.at))))
		w.trace.add("%s", f)
		w.count(string(f.kind))
		m := w.masters[f.master]
		switch f.kind {
		case crash:
			m.Crash(f.keeps)
		case start:
			m.Start()
		case save:
			m.Save()
		case flush:
			m.Flush()
		case unload:
			m.FlushScripts()
		case reset:
			w.net.reset(f.link)
		case pause:
			w.machines[f.client].gate.shut(w.start.Add(f.until))
		case kill, restart:
			w.flows.Go(func() {
				if err := w.machines[f.client].restart(f.kind == kill); err != nil {
					w.fail("client %d: starting again: %v", f.client, err)
				}
			})
		}
	}
	time.Sleep(time.Until(faultSlot.from(w.start.Add(w.plan.healed))))
	for _, m := range w.masters {
		m.Start()
	}
}

func (w *world) heal() {
	w.healing.Do(func() { w.trace.add("ALL IS WELL") })
}

// noOrphans waits until nothing is left on the masters of locks that nobody holds any more. What clients had sent when all was
// well again may still have been on the way, and they may have had to connect again; the locks of a process that ended are left
// to their lease.
func (w *world) noOrphans() {
	p := w.plan
	bound := max(p.healed+p.slowest+3*p.timeout+reconnecting, time.Since(w.start)+p.timeout)
	for _, f := range p.faults {
		if f.kind == kill || f.kind == restart {
			bound = max(bound, p.healed+2*p.lease)
		}
	}
	for {
		left, now := w.lockKeys(), time.Since(w.start)
		switch {
		case len(left) == 0:
			return
		case now > bound:
			w.fail("all has been well for %v, and keys are left that nobody holds: %v", now-p.healed, left)
			return
		}
		w.count("looks that found keys left")
		time.Sleep(5 * time.Millisecond)
		endSlot.wait()
	}
}

// reconnecting is how long a node may take to connect again, in several attempts.
const reconnecting = 500 * time.Millisecond

func (w *world) lockKeys() []string {
	var left []string
	for i, m := range w.masters {
		for _, key := range m.Keys() {
			if !strings.HasPrefix(key, scripts.Prefix) {
				left = append(left, fmt.Sprintf("%q on master %d", key, i))
			}
		}
	}
	return left
}

// refused looks at the error of a Lock.
func (w *world) refused(c *client, names []string, err error) {
	w.trace.add("client %d  %v", c.id, err)
	switch {
	case errors.Is(err, quorum.ErrClosed) && c.closed.Load():
	case !errors.Is(err, quorum.ErrNotAcquired), errors.Is(err, quorum.ErrInvalid), errors.Is(err, quorum.ErrClosed):
		w.fail("client %d: lock %v: %v", c.id, names, err)
	case errors.Is(err, quorum.ErrQuarantined):
		w.count("quarantined")
	case errors.Is(err, quorum.ErrUnavailable):
		w.count("unavailable")
	case errors.Is(err, quorum.ErrHeld):
		w.count("held")
	}
}

func (w *world) fail(format string, args ...any) {
	w.trace.add("FAILURE "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) waited(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, d)
}

// violations judges the run. It must be called outside of the bubble.
func (w *world) violations(honest bool) []history.Violation {
	all := history.Check(w.log.Events(), history.Options{HonestClocks: honest})
	for _, name := range w.plan.names {
		all = append(all, w.registers[name].Check()...)
	}
	return all
}
