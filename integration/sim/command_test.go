package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/scripts"
)

// This file has the operator's connections, and when a command is interrupted. What a command does is change.Driver's.

// driver carries out procedures over the connections of the operator's process.
func (o *operator) driver() change.Driver {
	return change.Driver{Call: o.call, Now: o.first.Clock.Now, Wait: o.wait}
}

// look returns what the masters say of themselves.
func (o *operator) look(ctx context.Context) map[string]*membership.View {
	var all []string
	for master := range o.world.Masters {
		all = append(all, world.NodeName(master))
	}
	return o.driver().Look(ctx, all).Views
}

// wait waits, unless ctx ends first.
func (o *operator) wait(ctx context.Context, d time.Duration) bool {
	defer o.turn()
	timer := time.NewTimer(time.Until(o.due(d)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// answer is a master's reply to the operator.
type answer struct {
	change.Reply
	to   chan<- *answer
	now  func() clock.Instant
	into *change.Reply
}

func (a *answer) Done(r pipeline.Result) {
	a.Reply = change.Reply{Reply: r.Reply, Err: r.Err, At: a.now()}
	a.to <- a
}

var errNoReply = errors.New("no reply")

// call makes calls on masters, all at once.
func (o *operator) call(ctx context.Context, calls map[string][]scripts.Call) map[string][]change.Reply {
	all := 0
	for _, of := range calls {
		all += len(of)
	}
	c, came, open := o.current(), make(chan *answer, all), 0
	replies := map[string][]change.Reply{}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		replies[name] = make([]change.Reply, len(calls[name]))
		for i, call := range calls[name] {
			to := &replies[name][i]
			to.Err = errNoReply
			if inside.Of(c.nodes[masterOf(name)]).Pipe("").Start(call, nil, &answer{to: came, now: o.first.Clock.Now, into: to}) == nil {
				open++
			}
		}
	}
	for ; open > 0 && ctx.Err() == nil; open-- {
		select {
		case a := <-came:
			*a.into = a.Reply
		case <-ctx.Done():
		}
	}
	o.turn()
	return replies
}

// carryOut carries out a procedure. The error is nil unless nothing may be written: a command that is interrupted is
// not done either.
func (o *operator) carryOut(ctx context.Context, what string, p *change.Procedure) (done bool, refused error) {
	w, by := o.world, o.driver()
	by.Before = func(step change.Step) bool {
		if step.Do != change.Write {
			return true
		}
		if o.rng.IntN(12) == 0 {
			w.count("interrupted")
			return false
		}
		w.trace.add("operator  %s on %s", what, step.Names[0])
		return true
	}
	_, _, err := by.Run(ctx, p)
	_, isUnanswered := errors.AsType[*change.UnansweredError](err)
	switch {
	case err == nil:
		w.count(what)
		w.trace.add("operator  %s: done", what)
		return true, nil
	case isUnanswered:
		w.count("interrupted")
		o.struck = time.Now()
		return false, nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false, nil
	}
	w.count("refused to the operator")
	w.trace.add("operator  %s: %v", what, err)
	return false, err
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
		o.world.Masters[masterOf(name)].Flush()
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
