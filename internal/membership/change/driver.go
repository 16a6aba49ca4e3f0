package change

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// Driver carries out procedures. The command and the simulation give it their connections and their time; what is done
// in which order is the same.
type Driver struct {
	// Call makes calls on masters, all at once, and returns each master's replies in the order of its calls. A master
	// that it does not know has none.
	Call func(ctx context.Context, calls map[string][]scripts.Call) map[string][]Reply
	Now  func() clock.Instant                                   // of a clock that counts a suspend, too
	Wait func(ctx context.Context, d time.Duration) (over bool) // false if ctx ends first
	// Before is called before each step. If it returns false, the run ends as if it were interrupted.
	Before func(Step) (goOn bool)
}

// Reply is a master's reply to a call.
type Reply struct {
	scripts.Reply
	Err error
	At  clock.Instant // when it came
}

// Seen is what a look found.
type Seen struct {
	Views map[string]*membership.View
	Errs  map[string]error // why a master has no view
}

// Run carries out a procedure. The report is empty unless it ends well. seen is its last look; of masters that were
// seen, its errors say why their token counters were not read or raised. An interrupted run returns ctx's error, or
// [context.Canceled].
func (d Driver) Run(ctx context.Context, p *Procedure) (report Report, seen Seen, err error) {
	var counters map[string]*operators.Counters
	for ctx.Err() == nil {
		step := p.Next()
		if !d.Before(step) {
			return Report{}, seen, context.Canceled
		}
		switch step.Do {
		case Look:
			seen = d.Look(ctx, step.Names)
			p.Looked(seen.Views)
		case Pause:
			if d.Wait(ctx, step.Wait) {
				p.Paused()
			}
		case ReadTokens:
			counters = d.readCounters(ctx, step.Names, seen.Errs)
			p.TokensRead(slices.Sorted(maps.Keys(counters)))
		case RaiseTokens:
			p.TokensRaised(d.raiseCounters(ctx, counters, seen.Errs))
		case Write:
			name := step.Names[0]
			r := d.Call(ctx, map[string][]scripts.Call{name: {step.Call}})[name][0]
			if r.Err != nil { // even if ctx has ended: the mark may be written yet
				p.Unanswered(name, r.Err)
				return Report{}, seen, p.Next().Err
			}
			p.Wrote(*r.Mark)
		case Done, Failed:
			return step.Report, seen, step.Err
		}
	}
	return Report{}, seen, ctx.Err()
}

// Look looks at masters.
func (d Driver) Look(ctx context.Context, names []string) Seen {
	s, began := Seen{map[string]*membership.View{}, map[string]error{}}, d.Now()
	calls := map[string][]scripts.Call{}
	for _, name := range names {
		calls[name] = []scripts.Call{scripts.Look()}
	}
	for name, replies := range d.Call(ctx, calls) {
		if r := replies[0]; r.Err != nil {
			s.Errs[name] = r.Err
		} else {
			s.Views[name] = membership.Read(*r.Look, r.At.Sub(began))
		}
	}
	return s
}

// readCounters returns all token counters of the masters that answer, and adds why the others have none.
func (d Driver) readCounters(ctx context.Context, names []string, errs map[string]error) map[string]*operators.Counters {
	read, calls := map[string]*operators.Counters{}, map[string][]scripts.Call{}
	for _, name := range names {
		calls[name] = operators.ReadCounters()
	}
	for name, replies := range d.callInParts(ctx, calls) {
		counters, err := new(operators.Counters), firstError(replies)
		for i := 0; i < len(replies) && err == nil; i++ {
			err = counters.Add(i, replies[i].Other.([]operators.Counter), scripts.MemberPrefix(name))
		}
		if err != nil {
			errs[name] = err
		} else {
			read[name] = counters
		}
	}
	return read
}

// raiseCounters makes the counters of each master at least the highest of all. It returns the masters on which they
// are, and adds why those of others may not be.
func (d Driver) raiseCounters(ctx context.Context, read map[string]*operators.Counters, errs map[string]error) (raised []string) {
	var highest operators.Counters
	for _, counters := range read {
		highest.Raise(counters)
	}
	calls := map[string][]scripts.Call{}
	for name, counters := range read {
		calls[name] = highest.Above(counters)
	}
	for name, replies := range d.callInParts(ctx, calls) {
		if err := firstError(replies); err != nil {
			errs[name] = err
		} else {
			raised = append(raised, name)
		}
	}
	return raised
}

// callsAtOnce is how many calls that read or raise counters a master gets at once. All of them can take a master longer
// than a node's timeout, and it replies to none before it has carried out all that it was sent.
const callsAtOnce = 8

// callInParts makes a few calls at a time on each master, and no more on a master after one that failed.
func (d Driver) callInParts(ctx context.Context, calls map[string][]scripts.Call) map[string][]Reply {
	all, left := map[string][]Reply{}, maps.Clone(calls)
	for len(left) > 0 {
		part := map[string][]scripts.Call{}
		for name, of := range left {
			part[name] = of[:min(callsAtOnce, len(of))]
			left[name] = of[len(part[name]):]
		}
		replies := d.Call(ctx, part)
		for name := range part {
			of, isKnown := replies[name]
			if isKnown {
				all[name] = append(all[name], of...)
			}
			if firstError(of) != nil || len(left[name]) == 0 {
				delete(left, name)
			}
		}
	}
	return all
}

func firstError(replies []Reply) error {
	for _, r := range replies {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
