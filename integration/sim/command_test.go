package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// This file has what the operator's commands do: cmd/quorumlock has the same in other words.

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

type (
	views = map[string]*membership.View
	marks = map[string]scripts.Call
)

// command repeats a step until it has nothing to write.
func (o *operator) command(ctx context.Context, what string, next func(views) (marks, time.Duration, error)) bool {
	w := o.world
	for range attempts {
		seen := o.look(ctx)
		if ctx.Err() != nil {
			return false
		}
		steps, wait, err := next(seen)
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
	o.command(ctx, "announced", func(seen views) (marks, time.Duration, error) {
		steps, wait, err := c.Announce(seen)
		for _, name := range c.To.Names() {
			v := seen[name]
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
	if !o.command(ctx, "committed", func(seen views) (marks, time.Duration, error) {
		steps, err := membership.Commit(to, seen)
		return steps, 0, err
	}) {
		o.struck = time.Now()
	}
}

func (o *operator) abort(ctx context.Context, s *state) {
	o.world.lists.narrow(s.members)
	if !o.command(ctx, "aborted", func(seen views) (marks, time.Duration, error) {
		maps.DeleteFunc(seen, func(name string, _ *membership.View) bool {
			return !s.members.Has(name) && !s.next.Has(name)
		})
		steps, err := membership.Abort(seen)
		return steps, 0, err
	}) {
		o.struck = time.Now()
	}
}
