package sim

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// listPlan is the part of a plan in which the list of masters changes. The last client is the
// operator; the others lock.
type listPlan struct {
	first   []int // the list of a new deployment
	manners []manner
	wrong   [][]int // the first list of a client, if it is another one
	anyList bool    // a control: grants and renewals accept clients of every list
}

// manner is how a client takes over a list that is announced.
type manner int

const (
	keen  manner = iota // the operator waits for it before the commit
	idle                // at some time
	stale               // never, before the faults end
)

// newListPlan makes the plan of a seed whose masters change.
func newListPlan(seed uint64) *plan {
	p := &plan{seed: seed, test: "TestListsThatChange"}
	d := p.rng("lists")
	p.masters = 4 + d.IntN(3)
	p.clients, p.flows = 1+2+d.IntN(3), 1+d.IntN(2)
	p.draw(d)
	p.ahead = false // a member that joins has no counter: the clients' clocks must do
	l := &listPlan{wrong: make([][]int, p.clients), manners: []manner{keen}}
	p.lists = l
	l.first = p.draft(d)
	for id := 1; id < p.clients-1; id++ {
		l.manners = append(l.manners, pick(d, keen, keen, idle, stale, stale))
		if wrong := p.draft(d); d.IntN(4) == 0 && shareMost(listOf(wrong), listOf(l.first)) {
			l.wrong[id] = wrong
		}
	}
	return p
}

// draft returns some 3 or 5 of the masters, the first ones most often.
func (p *plan) draft(d *rand.Rand) []int {
	n := 3
	if p.masters > 4 && d.IntN(3) == 0 {
		n = 5
	}
	return slices.Sorted(slices.Values(d.Perm(p.masters)[:n]))
}

// shareMost reports whether two lists share a majority of each. Clients with two others are kept apart
// only while no shared master forgets: docs/safety.md has that under "not covered".
func shareMost(a, b *scripts.List) bool {
	shared := 0
	for _, name := range a.Names() {
		if b.Has(name) {
			shared++
		}
	}
	return 2*shared > max(a.Len(), b.Len())
}

func (l *listPlan) String() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf(" (first list %v, wrong ones %v, manners of clients %v)", l.first, l.wrong, l.manners)
}

func (p *plan) isOperator(client int) bool { return p.lists != nil && client == p.clients-1 }

// listOf returns a client's first list.
func (p *plan) listOf(client int) []int {
	switch l := p.lists; {
	case l == nil || p.isOperator(client):
		all := make([]int, p.masters)
		for i := range all {
			all[i] = i
		}
		return all
	case l.wrong[client] != nil:
		return l.wrong[client]
	default:
		return l.first
	}
}

// forgets reports whether masters may be blank, or marked again, when clients with different lists ask: after the
// start, or if some client has a wrong list at the start. One that the operator replaces does not matter.
func (p *plan) forgets() bool {
	given := func(list []int) bool { return list != nil }
	return slices.ContainsFunc(p.lists.wrong, given) ||
		slices.ContainsFunc(p.faults, func(f world.Fault) bool { return f.Kind.Forgets || f.Kind.Restarts })
}

// settling bounds how long after the faults all clients have the list of the masters.
func (p *plan) settling() time.Duration {
	if p.lists == nil {
		return 0
	}
	return 16*p.lease + 10*time.Second
}

// masterOf is the master of a name by [world.NodeName].
func masterOf(name string) (master int) {
	for world.NodeName(master) != name {
		master++
	}
	return master
}

func listOf(masters []int) *scripts.List {
	var names []string
	for _, m := range masters {
		names = append(names, world.NodeName(m))
	}
	return scripts.NewList(names...)
}

func mastersOf(l *scripts.List) []int {
	var masters []int
	for _, name := range l.Names() {
		masters = append(masters, masterOf(name))
	}
	return masters
}

// listState is what the operator and the clients of a world share. It is nil if the list stays.
type listState struct {
	settled chan struct{} // closed when all clients have the masters' list, after the faults
	rolling atomic.Int32  // clients that are about to start again

	mu    sync.Mutex
	sure  []*scripts.List // their masters accept them, for as long as the epoch lasts
	epoch int
}

// setSure begins an epoch, unless the last one has the same lists.
func (s *listState) setSure(lists ...*scripts.List) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.EqualFunc(s.sure, lists, (*scripts.List).Equal) {
		s.sure = lists
		s.epoch++
	}
}

// narrow leaves at most one list accepted for certain.
func (s *listState) narrow(list *scripts.List) {
	s.mu.Lock()
	was := slices.ContainsFunc(s.sure, list.Equal)
	s.mu.Unlock()
	if was {
		s.setSure(list)
	} else {
		s.setSure()
	}
}

// certain returns the epoch in which a process' list is certainly accepted; 0 for none.
func (s *listState) certain(c *client) int {
	if s == nil {
		return 0
	}
	list := listOf(c.list)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.sure, list.Equal) {
		return s.epoch
	}
	return 0
}

// notAccepted judges an error for the sake of lists. If another holds the lock, what a master said may be from before the
// call: probes that are refused leave the queue the error of an earlier attempt.
func (w *run) notAccepted(c *client, err error, certain int) {
	w.count("not accepted")
	switch {
	case w.plan.lists == nil:
		w.fail("%v: %v", c, err)
	case certain != 0 && certain == w.lists.certain(c) && !w.plan.forgets() && !errors.Is(err, quorum.ErrHeld):
		w.fail("%v has a list that its masters accept: %v", c, err)
	}
}

// awaitLists waits until this client has the masters' list.
func (f *flow) awaitLists() {
	if s := f.world.lists; s != nil {
		<-s.settled
		f.turn()
	}
}

// setList sets the list of the machine's next processes.
func (m *machine) setList(list []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = list
}

func (m *machine) nextList() *scripts.List {
	m.mu.Lock()
	defer m.mu.Unlock()
	return listOf(m.list)
}

// replace is restart, again and again while the new process does not start: a list of an even number
// must be accepted.
func (m *machine) replace(kill bool) {
	if s := m.world.lists; s != nil {
		s.rolling.Add(1)
		defer s.rolling.Add(-1)
	}
	for {
		err := m.restart(kill)
		switch {
		case err == nil:
			return
		case m.world.plan.lists == nil:
			m.world.fail("client %d: restart: %v", m.id, err)
			return
		case m.world.ctx.Err() != nil: // stranded
			return
		}
		m.world.count("does not start")
		m.world.trace.add("client %d  does not start: %v", m.id, err)
		time.Sleep(m.world.plan.unit / 8)
	}
}

// roll gives a machine's next process another list, and starts it.
func (w *run) roll(m *machine, list *scripts.List, kill bool) {
	w.count("rolled over")
	w.trace.add("operator  gives client %d the list %s", m.id, list)
	m.setList(mastersOf(list))
	w.flows.Go(func() { m.replace(kill) })
}

// overlaps is a violation of mutual exclusion.
func overlaps(v history.Violation) bool { return v.Rule == "overlap" }

var listSeeds = flag.Int("sim.lists", 20, "how many seeds TestListsThatChange runs, from 1 on")

// The same must hold while the masters change, in any order of steps and with steps that stop
// anywhere: with clients that have the next list, the last one, one from long ago, and a wrong one.
func TestListsThatChange(t *testing.T) { judgeSeeds(t, *listSeeds, newListPlan) }

// Without the comparison of lists, a client that has only three of the five masters holds alongside
// the others. With it the same runs show no two holders.
func TestListsUncheckedFindTwo(t *testing.T) {
	find := func(anyList bool) int {
		return countOverlaps(t, 10, newListPlan, func(p *plan) bool {
			if p.masters < 5 {
				return false
			}
			p.lists.anyList, p.names, p.rest = anyList, p.names[:1], 0.02
			p.lists.first, p.lists.wrong[1], p.lists.manners[1] = []int{0, 1, 2, 3, 4}, []int{0, 1, 2}, stale
			return true
		}, false)
	}
	testkit.Check(t, find(true) > 0, "two holders were never found")
	testkit.Check(t, find(false) == 0, "with the comparison, two holders were found")
}

// A claim accepts nobody, nor those with the next list: a claimed master that copied a change under way granted to
// them at once, alongside a holder from before the power failed. Found by TestListsThatChange as two
// holders.
func TestListsWhenThePowerFails(t *testing.T) {
	for _, seed := range []uint64{46, 64, 110} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newListPlan(seed)
			p.faults, p.weather.Loss, p.weather.Slow = nil, 0, 0
			powerFails(p)
			judge(t, p)
		})
	}
}
