package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// operator changes the masters, as the commands quorumlock members do. It remembers next to nothing:
// before each step it looks at the masters, as members show does.
type operator struct {
	*flow
	growing bool
	buried  bool          // it has found a master dead
	to      *scripts.List // where it wants to go next
	struck  time.Time     // when a mark was last sent that may arrive later
}

func newOperator(m *machine) *operator { return &operator{flow: m.world.newFlow(m, 0)} }

func (o *operator) run() {
	w := o.world
	defer close(w.lists.settled)
	o.callers.enter(o.caller)
	o.turn()
	for time.Since(w.start) < w.plan.healed {
		o.rest(0.2)
		if o.rng.IntN(8) == 0 {
			o.replace(o.rng.IntN(2) == 0)
			o.turn()
		}
		ctx, end := o.patience()
		o.step(ctx, standing(o.look(ctx)))
		end()
	}
	o.settle()
}

// patience is how long a command runs before it is interrupted.
func (o *operator) patience() (context.Context, context.CancelFunc) {
	p := o.world.plan
	if o.rng.IntN(3) == 0 {
		return o.within(o.world.ctx, time.Duration(o.rng.ExpFloat64()*float64(6*p.latency)))
	}
	return o.within(o.world.ctx, 4*p.timeout+2*p.lease)
}

// state is where a change of the masters stands.
type state struct {
	members, next *scripts.List // next is nil while no change is known of
	announced     bool          // on all next members
	behind        bool          // a commit of the members is unfinished
	whole         bool          // all members let in the list
	waiting       bool          // and some are in quarantine
}

// standing returns the state of the list that a majority of its members has; of several, or where
// there is none, of the highest generation. It returns nil where there is no list.
func standing(views map[string]*membership.View) *state {
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
		return v != nil && v.Standing(list) == membership.LetsIn
	}
	s.whole, s.announced = true, s.next != nil
	for _, name := range s.members.Names() {
		v := views[name]
		s.whole = s.whole && carries(v, s.members)
		s.behind = s.behind || carries(v, s.members) && v.Marker().Next.Equal(s.members)
		if v != nil {
			left, _ := v.Quarantine()
			s.waiting = s.waiting || left > 0
		}
	}
	if s.next != nil {
		for _, name := range s.next.Names() {
			s.announced = s.announced && carries(views[name], s.next)
		}
	}
	return s
}

// know notes which lists are certainly let in, if no late mark can change that.
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
	case s.next == nil:
		o.aim(s.members)
		switch {
		case luck < 0.03:
			o.deploy(o.to, keen, idle)
		case luck < 0.6 && o.deploy(s.members, keen, idle):
		case o.isSafe(o.to):
			o.announce(ctx, membership.Change{From: s.members, To: o.to})
		}
	case luck < 0.06:
		o.abort(ctx, s)
	case !s.announced && luck < 0.97:
		o.announce(ctx, membership.Change{From: s.members, To: s.next})
	case luck < 0.15:
		o.deploy(s.next, idle)
	case luck > 0.93 || !o.deploy(s.next, keen):
		o.commit(ctx, s.next)
	}
}

// aim chooses where to go from the members.
func (o *operator) aim(members *scripts.List) {
	if o.to != nil && o.rng.IntN(10) > 0 {
		if _, err := membership.NewChange(members, o.to); err == nil && o.isSafe(o.to) {
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
		others = others.Without(name)
	}
	if o.growing {
		o.to = members.With(pick(o.rng, others.Names()...))
		return
	}
	leaving := pick(o.rng, members.Names()...)
	o.to = members.Without(leaving)
	if !o.isSafe(o.to) {
		return
	}
	if o.rng.IntN(3) == 0 && (!o.buried || w.plan.forgets()) { // it is dead for good, or nearly so
		o.buried = true
		w.count("died before its removal")
		w.trace.add("operator  finds %s dead", leaving)
		w.masters[masterOf(leaving)].Crash(pick(o.rng, fakeredis.Nothing, fakeredis.Nothing, fakeredis.Everything))
	}
}

// isSafe reports whether masters may forget when such a list has been committed.
func (o *operator) isSafe(list *scripts.List) bool {
	return !o.world.plan.forgets() || !slices.ContainsFunc(o.world.clients(), func(m *machine) bool {
		return !shareMost(m.nextList(), list)
	})
}

// clients returns the machines that lock.
func (w *world) clients() []*machine { return w.machines[:w.plan.clients-1] }

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

// look returns what the masters say of themselves.
func (o *operator) look(ctx context.Context) map[string]*membership.View {
	calls := map[string]scripts.Call{}
	for master := range o.world.masters {
		calls[masterName(master)] = scripts.Look()
	}
	views := map[string]*membership.View{}
	for name, reply := range o.call(ctx, calls) {
		views[name] = membership.Read(*reply.Look)
	}
	return views
}

// answer is a master's reply to the operator.
type answer struct {
	name   string
	result pipeline.Result
}

type answers struct {
	name string
	to   chan<- answer
}

func (a answers) Done(r pipeline.Result) { a.to <- answer{a.name, r} }

// call sends calls at once, and returns the replies that came.
func (o *operator) call(ctx context.Context, calls map[string]scripts.Call) map[string]scripts.Reply {
	c, came, open := o.current(), make(chan answer, len(calls)), 0
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if c.nodes[masterOf(name)].Pipe("").Start(calls[name], nil, answers{name, came}) == nil {
			open++
		}
	}
	replies := map[string]scripts.Reply{}
	for ; open > 0 && ctx.Err() == nil; open-- {
		select {
		case a := <-came:
			if a.result.Err == nil {
				replies[a.name] = a.result.Reply
			}
		case <-ctx.Done():
		}
	}
	o.turn()
	return replies
}

// write writes marks, and reports whether all were answered. Some are not sent when the command is
// stopped first.
func (o *operator) write(ctx context.Context, what string, steps map[string]scripts.Call) bool {
	w, all := o.world, len(steps)
	if o.rng.IntN(6) == 0 {
		names := slices.Sorted(maps.Keys(steps))
		o.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names[o.rng.IntN(len(names)):] {
			delete(steps, name)
		}
	}
	w.trace.add("operator  %s on %v", what, slices.Sorted(maps.Keys(steps)))
	if len(o.call(ctx, steps)) < all {
		w.count("interrupted")
		o.struck = time.Now()
		return false
	}
	return true
}

// attempts bounds the rounds of a command.
const attempts = 20

// command repeats a step until it has nothing to write.
func (o *operator) command(ctx context.Context, what string,
	plan func(map[string]*membership.View) (map[string]scripts.Call, time.Duration, error),
) (done bool) {
	w := o.world
	for range attempts {
		views := o.look(ctx)
		if ctx.Err() != nil {
			return false
		}
		steps, wait, err := plan(views)
		switch {
		case err != nil:
			w.count("refused to the operator")
			w.trace.add("operator  %s: %v", what, err)
			return false
		case wait > 0:
			timer := time.NewTimer(time.Until(o.due(wait)))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			o.turn()
		case len(steps) == 0:
			w.count(what)
			w.trace.add("operator  %s: done", what)
			return true
		case !o.write(ctx, what, steps):
			return false
		}
	}
	return false
}

func (o *operator) announce(ctx context.Context, c membership.Change) {
	o.command(ctx, "announced", func(views map[string]*membership.View) (map[string]scripts.Call, time.Duration, error) {
		steps, wait, err := c.Announce(views)
		for _, name := range c.To.Names() {
			v := views[name]
			if err == nil || c.From.Has(name) || v == nil || !v.IsMarked() || v.Marker().Claimed || o.rng.IntN(2) == 0 {
				continue
			}
			o.world.count("wiped")
			o.world.trace.add("operator  wipes %s", name)
			o.world.masters[masterOf(name)].Flush()
		}
		return steps, wait, err
	})
}

func (o *operator) commit(ctx context.Context, to *scripts.List) {
	o.world.lists.narrow(to)
	if !o.command(ctx, "committed", func(views map[string]*membership.View) (map[string]scripts.Call, time.Duration, error) {
		steps, err := membership.Commit(to, views)
		return steps, 0, err
	}) {
		o.struck = time.Now()
	}
}

func (o *operator) abort(ctx context.Context, s *state) {
	o.world.lists.narrow(s.members)
	if !o.command(ctx, "aborted", func(views map[string]*membership.View) (map[string]scripts.Call, time.Duration, error) {
		maps.DeleteFunc(views, func(name string, _ *membership.View) bool { return !s.members.Has(name) && !s.next.Has(name) })
		steps, err := membership.Abort(views)
		return steps, 0, err
	}) {
		o.struck = time.Now()
	}
}

// settle finishes the change that is under way, and gives all clients the masters' list. Where
// masters have forgotten and no client may mark them, it admits them.
func (o *operator) settle() {
	w, p := o.world, o.world.plan
	w.lists.setSure()
	for _, m := range w.masters { // those that it found dead, too
		m.Start()
	}
	var rolled time.Time
	tries := 0
	for begun := time.Now(); w.ctx.Err() == nil; o.rest(0.2) {
		ctx, end := o.within(w.ctx, 4*p.timeout+2*p.lease)
		s := standing(o.look(ctx))
		want := listOf(p.lists.first)
		switch {
		case s != nil && s.next != nil:
			want = s.next
		case s != nil:
			want = s.members
		}
		old := slices.ContainsFunc(w.clients(), func(m *machine) bool { return !m.nextList().Equal(want) })
		running := w.lists.rolling.Load() == 0 && !slices.ContainsFunc(w.clients(), func(m *machine) bool { return !listOf(m.current().list).Equal(want) })
		switch {
		case time.Since(begun) > 6*p.lease+2*time.Second:
			if tries++; tries > 3 || !p.forgets() {
				w.fail("stranded: the masters' list does not come out: %+v", s)
				end()
				return
			}
			o.admit(ctx, listOf(p.lists.first))
			begun = time.Now()
		case time.Since(rolled) > p.lease && (old || s == nil || !s.whole): // new processes mark what is blank
			rolled = time.Now()
			for _, m := range w.clients() {
				w.roll(m, want, false)
			}
		case s != nil && s.behind:
			o.commit(ctx, s.members)
		case s != nil && s.next != nil && !s.announced:
			o.announce(ctx, membership.Change{From: s.members, To: s.next})
		case s != nil && s.next != nil:
			o.commit(ctx, s.next)
		case s != nil && s.whole && !s.waiting && running:
			w.trace.add("operator  all have the list %s", s.members)
			end()
			return
		}
		end()
	}
}

// admit stops all clients for one max lease, and admits the masters with the list. It wipes the
// others.
func (o *operator) admit(ctx context.Context, list *scripts.List) {
	w, p := o.world, o.world.plan
	w.count("admitted at last")
	w.trace.add("operator  stops all clients, and admits %s", list)
	for _, m := range w.clients() {
		m.setList(mastersOf(list))
		c := m.current()
		c.dead.Store(true)
		for master := range w.masters {
			w.net.reset(link{m.id, master})
		}
	}
	time.Sleep(p.lease + p.lease/10)
	o.turn()
	calls := map[string]scripts.Call{}
	for name, v := range o.look(ctx) {
		if !list.Has(name) {
			w.masters[masterOf(name)].Flush()
		} else {
			if call, err := v.Admit(list); err != nil {
				w.fail("operator: %s: %v", name, err)
			} else {
				calls[name] = call
			}
		}
	}
	o.call(ctx, calls)
	for _, m := range w.clients() {
		w.roll(m, list, true)
	}
}
