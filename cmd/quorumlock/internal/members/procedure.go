package members

import (
	"cmp"
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
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// carryOut carries out a procedure. errs says why masters did not answer to its last look.
func (d deployment) carryOut(
	ctx context.Context, p *change.Procedure, out io.Writer,
) (report change.Report, errs map[string]error, err error) {
	by, told := d.driver(), "" // the reason of the last pause
	by.Before = func(step change.Step) bool {
		if step.Do == change.Pause && told != step.Why {
			fmt.Fprintf(out, "%s: waiting for another %v. Interrupt at will: the same command goes on.\n",
				step.Why, max(step.Wait.Round(100*time.Millisecond), 100*time.Millisecond))
			told = step.Why
		}
		return true
	}
	report, seen, err := by.Run(ctx, p)
	noteTwoMaxLeases(seen)
	if mark, ok := errors.AsType[*change.UnansweredError](err); ok {
		mark.Err = errors.New(reason(mark.Err))
	}
	if err != nil && ctx.Err() == nil {
		err = explain(err, seen.Errs)
	}
	return report, seen.Errs, err
}

func (d deployment) driver() change.Driver {
	return change.Driver{Call: d.call, Now: clock.System().Now, Wait: masters.Sleep}
}

// call makes calls on masters, all at once: a far master costs one round trip, not one for each call.
func (d deployment) call(ctx context.Context, calls map[string][]scripts.Call) map[string][]change.Reply {
	all := map[string][]change.Reply{}
	var calling sync.WaitGroup
	for name, made := range calls {
		n := d.nodes[name]
		if n == nil {
			continue
		}
		replies := make([]change.Reply, len(made))
		all[name] = replies
		for i, c := range made {
			calling.Go(func() {
				r := inside.Of(n).Pipe("").Do(ctx, c)
				replies[i] = change.Reply{Reply: r.Reply, Err: r.Err, At: clock.System().Now()}
			})
		}
	}
	calling.Wait()
	return all
}

func (d deployment) look(ctx context.Context) (views map[string]*membership.View, errs map[string]error) {
	seen := d.driver().Look(ctx, d.names)
	noteTwoMaxLeases(seen)
	return seen.Views, seen.Errs
}

// errTwoMaxLeases: the masters have different max leases, so no -max-lease makes all of them answer.
var errTwoMaxLeases = errors.New("other masters of this list have this client's")

func noteTwoMaxLeases(seen change.Seen) {
	for name, err := range seen.Errs {
		if errors.Is(err, node.ErrMaxLease) && slices.ContainsFunc(slices.Collect(maps.Values(seen.Views)), (*membership.View).IsMarked) {
			seen.Errs[name] = fmt.Errorf("%w: %w. Wipe those that have the wrong one (%s) when its clients have stopped for that "+
				"long, and clients with the right one mark them again", err, errTwoMaxLeases, change.Wipe(name))
		}
	}
}

// addsVote returns why the master to add may not be a member: one of the others is the same process, or
// there are too many.
func (d deployment) addsVote(ctx context.Context, added string, to *scripts.List) error {
	if to.Len() > quorate.MaxNodes {
		return fmt.Errorf("a list has at most %d masters, and this one would have %d", quorate.MaxNodes, to.Len())
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

// runID returns the run id of the process that a view is of, without the number of its database.
func runID(v *membership.View) string {
	id, _, _ := strings.Cut(v.Process.Run, "/")
	return id
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
		err = fmt.Errorf("%w\n  %s: %s", err, name, reason(errs[name]))
	}
	return err
}

// reason is [masters.Reason], and what to do about a master that is slow: it answers, but no repetition waits longer.
func reason(err error) string {
	said := masters.Reason(err)
	if errors.Is(err, node.ErrTimeout) {
		said += ": if it is only slow, give it longer with -timeout"
	}
	return said
}

// lockersWithout asks all masters which lockers may hold a lock, or take the next one soon: how many there are, and those
// that do not report the list. lacks are the masters that did not answer, or not completely.
func (d deployment) lockersWithout(ctx context.Context, list *scripts.List) (n int, others []operators.Introduced, lacks []string) {
	type heard struct {
		found []operators.Introduced
		all   bool
	}
	latest := map[string]operators.Introduced{}
	for i, h := range masters.Each(ctx, d.given, func(ctx context.Context, _ int, n *node.Node) (h heard) {
		cursor := "0"
		for range mostLockerCalls {
			r := inside.Of(n).Pipe("").Do(ctx, operators.Lockers(cursor))
			if r.Err != nil {
				return h
			}
			said := r.Reply.Other.(*operators.LockersReply)
			h.found = append(h.found, said.Found...)
			if cursor = said.Cursor; cursor == "0" {
				return heard{h.found, true}
			}
		}
		return h
	}) {
		if !h.all {
			lacks = append(lacks, d.names[i])
		}
		for _, l := range h.found {
			if before, known := latest[l.Locker]; l.MayHold(d.maxLease) && (!known || before.Left < l.Left) {
				latest[l.Locker] = l
			}
		}
	}
	for _, l := range latest {
		if !l.HasList(list) {
			others = append(others, l)
		}
	}
	slices.SortFunc(others, func(a, b operators.Introduced) int {
		return cmp.Or(cmp.Compare(a.Identity.Host, b.Identity.Host), cmp.Compare(a.Identity.PID, b.Identity.PID),
			cmp.Compare(a.Locker, b.Locker))
	})
	return len(latest), others, lacks
}
