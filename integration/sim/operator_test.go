package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/scripts"
)

// operator changes the masters, as the commands quorumlock members do. It remembers next to nothing:
// before each step it looks at the masters, as members show does.
type operator struct {
	*flow
	growing   bool
	foundDead bool          // it has found a master dead
	to        *scripts.List // where it wants to go next
	struck    time.Time     // when a mark was last sent that may arrive later
}

func (o *operator) run() {
	w := o.world
	defer close(w.lists.settled)
	o.enterProcess()
	o.turn()
	for time.Since(w.Start()) < w.plan.healed {
		o.rest(0.2)
		if o.rng.IntN(8) == 0 {
			o.replace(o.rng.IntN(2) == 0)
			o.turn()
		}
		ctx, end := o.timeout()
		o.step(ctx, majorityState(o.look(ctx)))
		end()
	}
	o.settle()
}

// timeout is how long a command runs before it is interrupted.
func (o *operator) timeout() (context.Context, context.CancelFunc) {
	p := o.world.plan
	if o.rng.IntN(3) == 0 {
		return o.within(o.world.ctx, time.Duration(o.rng.ExpFloat64()*float64(6*p.weather.Latency)))
	}
	return o.within(o.world.ctx, 4*p.timeout+2*p.lease)
}

// state is where a change of the masters stands.
type state struct {
	members, next *scripts.List // next is nil while no change is known of
	announced     bool          // on all next members
	behind        bool          // a commit of the members is unfinished
	begun         bool          // a commit of the next members is: some have them
	whole         bool          // all members accept the list
	waiting       bool          // and some are in quarantine
}

// majorityState returns the state of the list that a majority of its members has; of several, or of
// all lists if no majority has one, the highest generation's. It returns nil if there is no list.
func majorityState(views map[string]*membership.View) *state {
	best, score := (*membership.View)(nil), uint64(0)
	for _, name := range slices.Sorted(maps.Keys(views)) {
		m := views[name].Marker()
		if !views[name].IsMarked() || m.Claimed || !m.Members.Has(name) {
			continue
		}
		votes, rank := 0, m.Generation
		for _, other := range m.Members.Names() {
			if v := views[other]; v != nil && v.IsMarked() && !v.Marker().Claimed && v.Marker().Members.Equal(m.Members) {
				votes++
			}
		}
		if 2*votes > m.Members.Len() {
			rank += 1 << 32
		}
		if rank > score || rank == score && m.Members.Equal(best.Marker().Members) && m.Next.Len() > 0 {
			best, score = views[name], rank
		}
	}
	if best == nil {
		return nil
	}
	s := &state{members: best.Marker().Members}
	if next := best.Marker().Next; next.Len() > 0 {
		s.next = next
	}
	carries := func(v *membership.View, list *scripts.List) bool {
		return v != nil && v.Relation(list) == membership.Accepts
	}
	s.whole, s.announced = true, s.next != nil
	for _, name := range s.members.Names() {
		v := views[name]
		s.whole = s.whole && carries(v, s.members)
		s.behind = s.behind || carries(v, s.members) && v.Marker().Next.Equal(s.members) || v != nil && isLeft(v, best.Marker())
		s.begun = s.begun || s.next != nil && v != nil && v.Relation(s.next) == membership.Accepts && v.Marker().Members.Equal(s.next)
		s.waiting = s.waiting || v != nil && v.Quarantine() > 0
	}
	if s.next != nil {
		for _, name := range s.next.Names() {
			s.announced = s.announced && carries(views[name], s.next)
		}
	}
	return s
}

// isLeft reports whether a commit has left the master behind: it was blank, and a client marked it with the list before.
func isLeft(v *membership.View, of scripts.Marker) bool {
	m := v.Marker()
	return v.IsMarked() && !m.Claimed && m.Next.Len() == 0 && m.Generation < of.Generation && !m.Members.Equal(of.Members)
}

// know notes which lists are certainly accepted, if no late mark can change that.
func (o *operator) know(s *state) {
	switch quiet := time.Since(o.struck) > o.world.plan.lease+o.world.plan.lease/10; {
	case s == nil || !quiet || !s.whole || s.behind:
		o.world.lists.setSure()
	case s.announced:
		o.world.lists.setSure(s.members, s.next)
	default:
		o.world.lists.setSure(s.members)
	}
}

// step makes one step towards the next list, most often the right one.
func (o *operator) step(ctx context.Context, s *state) {
	o.know(s)
	luck := o.rng.Float64()
	switch {
	case s == nil: // a client makes a new deployment
	case s.behind:
		o.commit(ctx, s.members)
	case s.begun && luck < 0.9: // as the errors of the other commands say
		o.commit(ctx, s.next)
	case s.next == nil:
		o.aim(s.members)
		switch {
		case luck < 0.03:
			o.deploy(o.to, keen, idle)
		case luck < 0.6 && o.deploy(s.members, keen, idle):
		case o.isSafe(o.to):
			o.announce(ctx, change.Change{From: s.members, To: o.to})
		}
	case luck < 0.06:
		o.abort(ctx, s)
	case !s.announced && luck < 0.97:
		o.announce(ctx, change.Change{From: s.members, To: s.next})
	case luck < 0.15:
		o.deploy(s.next, idle)
	case luck > 0.93 || !o.deploy(s.next, keen):
		o.commit(ctx, s.next)
	}
}

// aim chooses where to go from the members.
func (o *operator) aim(members *scripts.List) {
	if o.to != nil && o.rng.IntN(10) > 0 {
		if _, err := change.New(members, o.to); err == nil && o.isSafe(o.to) {
			return
		}
	}
	w := o.world
	if o.rng.IntN(3) == 0 {
		o.growing = !o.growing
	}
	if members.Len() < 3 || members.Len() == w.plan.masters {
		o.growing = members.Len() < 3
	}
	others := listOf(w.plan.listOf(o.machine.id))
	for _, name := range members.Names() {
		others = change.Without(others, name)
	}
	if o.growing {
		o.to = change.With(members, pick(o.rng, others.Names()...))
		return
	}
	leaving := pick(o.rng, members.Names()...)
	o.to = change.Without(members, leaving)
	if !o.isSafe(o.to) {
		return
	}
	if o.rng.IntN(3) == 0 && (!o.foundDead || w.plan.forgets()) { // it is dead for good, or nearly so
		o.foundDead = true
		w.count("died before its removal")
		w.trace.add("operator  finds %s dead", leaving)
		w.Masters[masterOf(leaving)].Crash(pick(o.rng, fakeredis.Nothing, fakeredis.Nothing, fakeredis.Everything))
	}
}

// isSafe reports whether masters may forget when such a list has been committed.
func (o *operator) isSafe(list *scripts.List) bool {
	return !o.world.plan.forgets() || !slices.ContainsFunc(o.world.clients(), func(m *machine) bool {
		return !shareMost(m.nextList(), list)
	})
}

// clients returns the machines that lock.
func (w *run) clients() []*machine { return w.machines[:w.plan.clients-1] }

// deploy rolls one client of such a manner over to the list, and reports whether there was one.
func (o *operator) deploy(list *scripts.List, manners ...manner) bool {
	var left []*machine
	for id, how := range o.world.plan.lists.manners {
		if m := o.world.machines[id]; slices.Contains(manners, how) && !m.nextList().Equal(list) {
			left = append(left, m)
		}
	}
	if len(left) == 0 {
		return false
	}
	o.world.roll(pick(o.rng, left...), list, o.rng.IntN(2) == 0)
	return true
}
