package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/register"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts"
)

// run is a world that plays a plan.
type run struct {
	*world.World
	plan      *plan
	trace     *trace
	registers map[string]*register.Register
	machines  []*machine
	lists     *listState
	ctx       context.Context // of all clients' calls; ends when a flow is stranded
	flows     sync.WaitGroup

	mu       sync.Mutex
	events   []history.Event
	failures []string
	counts   map[string]int
	tickets  []*handed     // to be tried
	longest  time.Duration // the longest wait after all faults had ended
	healing  sync.Once
}

// play runs a plan in a bubble of its own, and returns when no goroutine of it runs.
func play(t *testing.T, p *plan) *run {
	t.Helper()
	w := &run{plan: p, registers: map[string]*register.Register{}, counts: map[string]int{}}
	for _, name := range p.names {
		w.registers[name] = &register.Register{}
	}
	synctest.Test(t, func(t *testing.T) {
		w.build(t)
		w.run()
	})
	return w
}

// build makes the masters and the machines.
func (w *run) build(t *testing.T) {
	p := w.plan
	w.World = world.Config{Masters: p.masters, Rates: p.masterRate, Seed: p.seed, Weather: &p.weather}.New(t)
	w.Replace = func(process int, kill bool) { w.flows.Go(func() { w.machines[process].replace(kill) }) }
	w.trace = &trace{start: w.Start()}
	w.Before(func(s world.Script) {
		w.trace.script(s)
		w.countRun(s.Name, s.Reply)
	})
	for i, m := range w.Masters {
		m.AnyList = p.lists != nil && p.lists.anyList
		if p.ahead {
			w.countAhead(i, m)
		}
	}
	for id := range w.plan.clients {
		w.machines = append(w.machines, newMachine(w, id))
	}
	if w.plan.lists != nil {
		w.lists = &listState{settled: make(chan struct{})}
	}
}

func (w *run) run() {
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(context.Background())
	defer cancel()

	for _, m := range w.machines { // one after the other, always in the same order
		w.runClient(m)
	}
	var faults sync.WaitGroup
	faults.Go(w.injectFaults)
	// Each waiter must get its lock in time, one flow after the other.
	stranded := time.AfterFunc(w.plan.healed+w.plan.settling()+3*w.plan.bound, func() {
		w.fail("stranded: some flow did not end")
		cancel()
	})
	w.flows.Wait()
	stranded.Stop()
	faults.Wait()
	endSlot.Wait()
	w.noOrphans()
	w.tryTogether()
	for _, m := range w.machines {
		m.current().close()
	}
	// Closed processes leave connections to silent servers open until their deadlines.
	time.Sleep(redisconn.ConnectTimeout(w.plan.timeout))
}

// tryTogether has all clients try at once for a name that nobody has: one of them gets it.
func (w *run) tryTogether() {
	if w.plan.lists != nil || len(w.failures) > 0 {
		return
	}
	type result struct {
		lock *quorum.Lock
		err  error
	}
	results := make(chan result, len(w.machines))
	for _, m := range w.machines {
		f := w.newFlow(m, 0)
		go func() {
			f.enterProcess()
			f.turn()
			l := m.current().locker
			try := func() (*quorum.Lock, error) { return l.TryLock(w.ctx, w.plan.names[0]) }
			if w.plan.slots > 0 {
				try = func() (*quorum.Lock, error) { return semaphore.New(l, semaphoreName, 1).TryAcquire(w.ctx) }
			}
			lock, err := try()
			results <- result{lock, err}
		}()
	}
	var locks []*quorum.Lock
	var errs []error
	for range w.machines {
		if r := <-results; r.err == nil {
			locks = append(locks, r.lock)
		} else {
			errs = append(errs, r.err)
		}
	}
	endSlot.Wait()
	isUnavailable := func(err error) bool {
		return errors.Is(err, quorum.ErrUnavailable) || errors.Is(err, quorum.ErrQuarantined)
	}
	switch {
	case slices.ContainsFunc(errs, isUnavailable): // a master's answer took longer than a timeout, or it is in quarantine
	case len(locks) != 1:
		w.fail("%d of %d clients that tried at once hold: %v", len(locks), len(w.machines), errors.Join(errs...))
	case slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, quorum.ErrHeld) }):
		w.fail("a client that tried with others is told: %v", errors.Join(errs...))
	default:
		w.count("tried together")
	}
	for _, lock := range locks {
		if err := lock.Unlock(w.ctx); err != nil && !isUnavailable(err) {
			w.fail("after a try with others: %v", err)
		}
	}
}

// countAhead sets a master's token counters above the clients' seeds, and apart from the other
// masters' counters, so that tokens are counted up and written back.
func (w *run) countAhead(i int, m *fakeredis.Master) {
	rng := w.plan.rng("counters", uint64(i))
	for _, name := range w.plan.names {
		m.Set(scripts.NewName(name).Counter(), fmt.Sprint(1<<51+rng.IntN(5)))
	}
}

func (w *run) runClient(m *machine) {
	if err := m.start(); err != nil {
		w.fail("client %d: %v", m.id, err)
		return
	}
	if w.plan.isOperator(m.id) {
		w.flows.Go((&operator{flow: w.newFlow(m, 0)}).run)
		return
	}
	for i := range w.plan.flows {
		w.flows.Go(w.newFlow(m, i).run)
	}
}

// injectFaults runs the faults of the plan, and then ends them all.
func (w *run) injectFaults() {
	w.Play(w.plan.faults, w.plan.healed, func(f world.Fault) {
		w.trace.add("FAULT %s", f)
		w.count(f.Kind.Name)
	})
	for _, m := range w.Masters { // the operator has crashed some
		m.Start()
	}
}

// noOrphans waits until the masters have no key of a lock without a holder. Requests may still be
// under way when the faults end, and clients may have to connect again. Locks of an ended process,
// and those that were handed over to nobody, stay for their lease.
func (w *run) noOrphans() {
	p := w.plan
	bound := max(p.healed+p.weather.Slowest+3*p.timeout+reconnecting, time.Since(w.Start())+p.timeout)
	if p.lists != nil || p.handsOver {
		bound = max(bound, time.Since(w.Start())+2*p.lease)
	}
	if slices.ContainsFunc(p.faults, func(f world.Fault) bool { return f.Kind.Replaces }) {
		bound = max(bound, p.healed+2*p.lease)
	}
	for {
		left, now := w.lockKeys(), time.Since(w.Start())
		switch {
		case len(left) == 0:
			return
		case now > bound:
			w.fail("%v after all faults had ended, keys without a holder are left: %v", now-p.healed, left)
			return
		}
		w.count("looks that found keys left")
		time.Sleep(5 * time.Millisecond)
		endSlot.Wait()
	}
}

// reconnecting bounds the time in which a node connects again, in several attempts.
const reconnecting = 500 * time.Millisecond

func (w *run) lockKeys() []string {
	var left []string
	for i, m := range w.Masters {
		for _, key := range m.Keys() {
			if _, _, isSlot := scripts.ParseSlot(key); isSlot || !strings.HasPrefix(key, scripts.Prefix) {
				left = append(left, fmt.Sprintf("%q on master %d", key, i))
			}
		}
	}
	return left
}

// refused judges the error of a Lock.
func (w *run) refused(c *client, names []string, err error, certain int) {
	w.trace.add("client %d  %v", c.id, err)
	switch {
	case errors.Is(err, quorum.ErrClosed) && c.closed.Load():
	case !errors.Is(err, quorum.ErrNotAcquired), errors.Is(err, quorum.ErrInvalid), errors.Is(err, quorum.ErrClosed):
		w.fail("client %d: lock %v: %v", c.id, names, err)
	case errors.Is(err, quorum.ErrMembership):
		w.notAccepted(c, err, certain)
	case errors.Is(err, quorum.ErrQuarantined):
		w.count("quarantined")
	case errors.Is(err, quorum.ErrUnavailable):
		w.count("unavailable")
	case errors.Is(err, quorum.ErrHeld):
		w.count("held")
	}
}

func (w *run) fail(format string, args ...any) {
	w.trace.add("FAILURE "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *run) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// countProbe counts the attempts that asked one master first ([quorum.Hooks.Attempt]).
func (w *run) countProbe(_ context.Context, e quorum.AttemptEvent) {
	if !e.Probed {
		return
	}
	w.count("probes")
	if e.Err == nil {
		w.count("locks after a probe")
	}
}

// countRun counts the runs of a script that several calls share, and how many had mixed outcomes.
func (w *run) countRun(script string, reply any) {
	if script != "acquires" && script != "releases" {
		return
	}
	w.count(script)
	switch reply := reply.(type) {
	case int64:
		if reply == 0 {
			w.count(script + " refused")
		}
	case []any:
		w.count(script + " of mixed outcomes")
	}
}

func (w *run) waited(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, d)
}

// violations judges the run. It must be called outside the bubble.
func (w *run) violations(honest bool) []history.Violation {
	all := history.Check(w.events, history.Options{HonestClocks: honest})
	for _, name := range w.plan.names {
		for _, v := range w.registers[name].Check() {
			all = append(all, history.Violation(v))
		}
	}
	return all
}
