package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// carryOut does what a procedure says, step by step. errs says why masters did not answer to its last
// look.
func (d deployment) carryOut(
	ctx context.Context, p *change.Procedure, out io.Writer,
) (report change.Report, errs map[string]error, err error) {
	var counters map[string]*operators.Counters
	told := "" // the reason of the last pause
	for ctx.Err() == nil {
		switch step := p.Next(); step.Do {
		case change.Look:
			var views map[string]*membership.View
			views, errs = d.look(ctx)
			p.Looked(views)
		case change.Pause:
			if told != step.Why {
				fmt.Fprintf(out, "%s: waiting for another %v. Interrupt at will: the same command goes on.\n",
					step.Why, max(step.Wait.Round(100*time.Millisecond), 100*time.Millisecond))
				told = step.Why
			}
			if masters.Sleep(ctx, step.Wait) {
				p.Paused()
			}
		case change.ReadTokens:
			var failed map[string]error
			counters, failed = d.readCounters(ctx, step.Names)
			maps.Copy(errs, failed)
			p.TokensRead(slices.Sorted(maps.Keys(counters)))
		case change.RaiseTokens:
			raised, failed := d.raiseCounters(ctx, counters)
			maps.Copy(errs, failed)
			p.TokensRaised(raised)
		case change.Write:
			r := call(ctx, d.nodes[step.Names[0]], step.Call)
			if r.Err != nil {
				p.Unanswered(step.Names[0], errors.New(masters.Reason(r.Err)))
			} else {
				p.Wrote(*r.Reply.Mark)
			}
		case change.Done:
			return step.Report, errs, nil
		case change.Failed:
			return change.Report{}, errs, explain(step.Err, errs)
		}
	}
	return change.Report{}, errs, ctx.Err()
}

// look returns the masters' views, and why a master has none.
func (d deployment) look(ctx context.Context) (views map[string]*membership.View, errs map[string]error) {
	views, errs = map[string]*membership.View{}, map[string]error{}
	nodes, began := slices.Collect(maps.Values(d.nodes)), clock.System().Now() // it counts a suspend, too
	type seen struct {
		pipeline.Result
		since time.Duration
	}
	for i, s := range masters.Each(ctx, nodes, func(ctx context.Context, n *node.Node) seen {
		r := call(ctx, n, scripts.Look())
		return seen{r, clock.System().Now().Sub(began)}
	}) {
		if name := nodes[i].Name(); s.Err != nil {
			errs[name] = s.Err
		} else {
			views[name] = membership.Read(*s.Reply.Look, s.since)
		}
	}
	noteTwoMaxLeases(views, errs)
	return views, errs
}

// errTwoMaxLeases: the masters have different max leases, so no -max-lease makes all of them answer.
var errTwoMaxLeases = fmt.Errorf("other masters of this list have this client's. Wipe those that have the wrong one (DEL %s) "+
	"when its clients have stopped for that long, and clients with the right one mark them again", scripts.MarkerKey)

func noteTwoMaxLeases(views map[string]*membership.View, errs map[string]error) {
	for name, err := range errs {
		if errors.Is(err, node.ErrMaxLease) && slices.ContainsFunc(slices.Collect(maps.Values(views)), (*membership.View).IsMarked) {
			errs[name] = fmt.Errorf("%w: %w", err, errTwoMaxLeases)
		}
	}
}

// addsVote returns why the master to add may not be a member: one of the others is the same process, or
// there are too many.
func (d deployment) addsVote(ctx context.Context, added string, to *scripts.List) error {
	if to.Len() > mostMasters {
		return fmt.Errorf("a list has at most %d masters, and this one would have %d", mostMasters, to.Len())
	}
	views, _ := d.look(ctx)
	newcomer := views[added]
	if newcomer == nil {
		return nil // the procedure says so
	}
	for _, name := range d.names {
		if v := views[name]; v != nil && name != added && runID(v) == runID(newcomer) {
			return masters.TwinError(d.nodes[added], d.nodes[name])
		}
	}
	return nil
}

// mostMasters bounds the masters of a list, as in packages quorum and node.
const mostMasters = 64

// runID returns the run id of the process that a view is of, without the number of its database.
func runID(v *membership.View) string {
	id, _, _ := strings.Cut(v.Process.Run, "/")
	return id
}

// readCounters returns all token counters of the masters that answer, and why the others have none.
func (d deployment) readCounters(ctx context.Context, names []string) (read map[string]*operators.Counters, errs map[string]error) {
	read, errs = map[string]*operators.Counters{}, map[string]error{}
	for name, replies := range d.callAll(ctx, names, func(string) []scripts.Call { return operators.ReadCounters() }) {
		counters := new(operators.Counters)
		err := firstError(replies)
		for i := 0; i < len(replies) && err == nil; i++ {
			err = counters.Add(i, replies[i].Reply.Other.([]operators.Counter))
		}
		if err != nil {
			errs[name] = err
		} else {
			read[name] = counters
		}
	}
	return read, errs
}

// raiseCounters makes the counters of each master at least the highest of all.
func (d deployment) raiseCounters(ctx context.Context, read map[string]*operators.Counters) (raised []string, errs map[string]error) {
	var highest operators.Counters
	for _, counters := range read {
		highest.Raise(counters)
	}
	errs = map[string]error{}
	names := slices.Sorted(maps.Keys(read))
	for name, replies := range d.callAll(ctx, names, func(name string) []scripts.Call { return highest.Above(read[name]) }) {
		if err := firstError(replies); err != nil {
			errs[name] = err
		} else {
			raised = append(raised, name)
		}
	}
	return raised, errs
}

// callAll makes calls on masters, all at once: a far master costs one round trip, not one for each call.
func (d deployment) callAll(ctx context.Context, names []string, calls func(name string) []scripts.Call) map[string][]pipeline.Result {
	all := map[string][]pipeline.Result{}
	var calling sync.WaitGroup
	for _, name := range names {
		n := d.nodes[name]
		if n == nil {
			continue
		}
		made := calls(name)
		answers := make([]pipeline.Result, len(made))
		all[name] = answers
		for i, c := range made {
			calling.Go(func() { answers[i] = call(ctx, n, c) })
		}
	}
	calling.Wait()
	return all
}

func firstError(results []pipeline.Result) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

func call(ctx context.Context, n *node.Node, script scripts.Call) pipeline.Result {
	return inside.Of(n).Pipe("").Do(ctx, script)
}

// explain adds to a refusal why a master did not answer. Another max lease is the whole reason:
// such a master is not dead.
func explain(err error, errs map[string]error) error {
	err = plain.Wrap(err)
	names := slices.Sorted(maps.Keys(errs))
	for _, name := range names {
		switch {
		case errors.Is(errs[name], errTwoMaxLeases):
			return fmt.Errorf("%s: %s", name, plain.Text(errs[name].Error()))
		case errors.Is(errs[name], node.ErrMaxLease):
			return fmt.Errorf("%s: %s", name, masters.Reason(errs[name]))
		}
	}
	for _, name := range names {
		err = fmt.Errorf("%w\n  %s: %s", err, name, masters.Reason(errs[name]))
	}
	return err
}
