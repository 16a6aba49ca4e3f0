package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// This file has what the operator's commands do: cmd/quorumlock has the same in other words.

// look returns what the masters say of themselves.
func (o *operator) look(ctx context.Context) map[string]*membership.View {
	calls, began := map[string][]scripts.Call{}, time.Now()
	for master := range o.world.masters {
		calls[masterName(master)] = []scripts.Call{scripts.Look()}
	}
	views := map[string]*membership.View{}
	for name, replies := range o.call(ctx, calls) {
		views[name] = membership.Read(*replies[0].reply.Look, replies[0].at.Sub(began))
	}
	return views
}

// answer is a master's reply to the operator.
type answer struct {
	name  string
	place int // of the call
	reply scripts.Reply
	err   error
	at    time.Time
}

type answers struct {
	name  string
	place int
	to    chan<- answer
}

func (a answers) Done(r pipeline.Result) {
	a.to <- answer{a.name, a.place, r.Reply, r.Err, time.Now()}
}

// call sends calls at once, and returns the replies of the masters that have answered all of theirs.
func (o *operator) call(ctx context.Context, calls map[string][]scripts.Call) map[string][]answer {
	all := 0
	for _, of := range calls {
		all += len(of)
	}
	c, came, open := o.current(), make(chan answer, all), 0
	replies, missing := map[string][]answer{}, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		replies[name], missing[name] = make([]answer, len(calls[name])), len(calls[name])
		for i, call := range calls[name] {
			if inside.Of(c.nodes[masterOf(name)]).Pipe("").Start(call, nil, answers{name, i, came}) == nil {
				open++
			}
		}
	}
	for ; open > 0 && ctx.Err() == nil; open-- {
		select {
		case a := <-came:
			if a.err == nil {
				replies[a.name][a.place] = a
				missing[a.name]--
			}
		case <-ctx.Done():
		}
	}
	maps.DeleteFunc(replies, func(name string, _ []answer) bool { return missing[name] > 0 })
	o.turn()
	return replies
}

// carryOut does what a procedure says. It returns false when it stopped before the end: the procedure
// failed, or the command was interrupted.
func (o *operator) carryOut(ctx context.Context, what string, p *change.Procedure) (done bool, err error) {
	w := o.world
	var counters map[string]*operators.Counters
	for ctx.Err() == nil {
		switch step := p.Next(); step.Do {
		case change.Look:
			if views := o.look(ctx); ctx.Err() == nil {
				p.Looked(views)
			}
		case change.Pause:
			timer := time.NewTimer(time.Until(o.due(step.Wait)))
			select {
			case <-timer.C:
				p.Paused()
			case <-ctx.Done():
			}
			timer.Stop()
			o.turn()
		case change.ReadTokens:
			counters = o.readCounters(ctx, step.Names)
			p.TokensRead(slices.Sorted(maps.Keys(counters)))
		case change.RaiseTokens:
			p.TokensRaised(o.raiseCounters(ctx, counters))
		case change.Write:
			if o.rng.IntN(12) == 0 {
				w.count("interrupted")
				return false, nil
			}
			name := step.Names[0]
			w.trace.add("operator  %s on %s", what, name)
			replies := o.call(ctx, map[string][]scripts.Call{name: {step.Call}})
			if len(replies) == 0 {
				w.count("interrupted")
				o.struck = time.Now()
				return false, nil
			}
			p.Wrote(*replies[name][0].reply.Mark)
		case change.Failed:
			w.count("refused to the operator")
			w.trace.add("operator  %s: %v", what, step.Err)
			return false, step.Err
		case change.Done:
			w.count(what)
			w.trace.add("operator  %s: done", what)
			return true, nil
		}
	}
	return false, nil
}

func (o *operator) readCounters(ctx context.Context, names []string) map[string]*operators.Counters {
	calls := map[string][]scripts.Call{}
	for _, name := range names {
		calls[name] = operators.ReadCounters()
	}
	read := map[string]*operators.Counters{}
	for name, replies := range o.call(ctx, calls) {
		read[name] = new(operators.Counters)
		for i, a := range replies {
			if err := read[name].Add(i, a.reply.Other.([]operators.Counter)); err != nil {
				delete(read, name)
				break
			}
		}
	}
	return read
}

func (o *operator) raiseCounters(ctx context.Context, read map[string]*operators.Counters) []string {
	var highest operators.Counters
	for _, counters := range read {
		highest.Raise(counters)
	}
	calls := map[string][]scripts.Call{}
	for name, counters := range read {
		calls[name] = highest.Above(counters)
	}
	return slices.Sorted(maps.Keys(o.call(ctx, calls)))
}

func (o *operator) announce(ctx context.Context, c change.Change) {
	_, err := o.carryOut(ctx, "announced", c.Announce())
	for _, name := range c.To.Names() {
		if err == nil || c.From.Has(name) || o.rng.IntN(2) == 0 {
			continue
		}
		if v := o.look(ctx)[name]; v == nil || !v.IsMarked() || v.Marker().Claimed {
			continue
		}
		o.world.count("wiped")
		o.world.trace.add("operator  wipes %s", name)
		o.world.masters[masterOf(name)].Flush()
	}
}

// commit gives the masters of the new list, and now and then the one that it removes.
func (o *operator) commit(ctx context.Context, to *scripts.List) {
	o.world.lists.narrow(to)
	given := to
	if views := o.look(ctx); o.rng.IntN(2) == 0 {
		for _, v := range views {
			if from := v.Marker().Members; v.Marker().Next.Equal(to) && from.Len() > to.Len() {
				given = from
			}
		}
	}
	if done, _ := o.carryOut(ctx, "committed", change.Commit(given)); !done {
		o.struck = time.Now()
	}
}

func (o *operator) abort(ctx context.Context, s *state) {
	o.world.lists.narrow(s.members)
	all := s.members
	for _, name := range s.next.Names() {
		if !all.Has(name) {
			all = change.With(all, name)
		}
	}
	if done, _ := o.carryOut(ctx, "aborted", change.Abort(all)); !done {
		o.struck = time.Now()
	}
}
