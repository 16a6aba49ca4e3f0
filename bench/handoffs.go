package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/handoff"
	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/bench/internal/profile"
)

// crowdPlan passes one lock among many contenders.
func crowdPlan(s size) handoff.Plan {
	return handoff.Plan{Contenders: s.processes, Processes: s.processes, Locks: 1, Hold: time.Millisecond,
		Away: 5 * time.Millisecond, For: s.pass}
}

// waiterPlan passes each lock to its only waiter.
func waiterPlan(s size) handoff.Plan {
	return handoff.Plan{Contenders: 128, Processes: s.processes, Locks: 64, Hold: 260 * time.Millisecond,
		Away: 260 * time.Millisecond, For: s.pass}
}

// handoffRound is a round of handoffs, or the time of a pair beside it.
type handoffRound struct {
	handoff.Round
	pairs measure.Sample
}

// measureHandoffs measures how a lock passes between processes, beside one caller's pair.
func measureHandoffs(planOf func(size) handoff.Plan) func(*bench, context.Context, int) (*outcome, error) {
	return func(b *bench, ctx context.Context, n int) (o *outcome, err error) {
		library, err := peers.OpenLibrary(b.urls(n))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, library.Close()) }()
		load := measure.Load{Callers: 1, For: 3 * b.slice, Names: "pair", Masters: b.some(n)}
		if _, err := load.Run(ctx, library); err != nil { // connections are made
			return nil, err
		}
		names := append([]string{onePair}, handoff.Peers...)
		all, err := measure.Alternate(len(names), b.passes, func(side int) (r handoffRound, err error) {
			if side == 0 {
				r.pairs, err = load.Run(ctx, library)
			} else {
				r.Round, err = planOf(b.size).Run(ctx, names[side], b.some(n))
			}
			return r, err
		})
		if err != nil {
			return nil, err
		}
		o = outcomeOf(names, all, ofHandoffs)
		o.tellHandoffs(handoff.Peers, all[1:])
		return o, nil
	}
}

// tellHandoffs reports all of each side's rounds.
func (o *outcome) tellHandoffs(names []string, all [][]handoffRound) {
	for side, name := range names {
		sum := handoff.Sum(measure.Of(all[side], func(r handoffRound) handoff.Round { return r.Round }))
		o.tell("%s: %s", name, sum.Details())
	}
}

// ofHandoffs has no percentile without a handoff: a budget of them is then not met.
func ofHandoffs(r handoffRound) figures {
	if r.pairs.Pairs > 0 {
		return ofPairs(r.pairs)
	}
	f := figures{}
	if len(r.Handoffs) > 0 {
		f = ofTimes(r.Handoffs)
	}
	if acquired := float64(len(r.Waits)); acquired > 0 {
		f[callersCPU], f[mastersCPU] = float64(r.Usage.Callers)/acquired, float64(r.Usage.Masters)/acquired
	}
	return f
}

// profileHandoffs shows the masters' part, and how fast a message could wake a waiter.
func profileHandoffs(planOf func(size) handoff.Plan) func(*bench, context.Context, int) (string, error) {
	return func(b *bench, ctx context.Context, n int) (string, error) {
		r, err := planOf(b.size).Run(ctx, ours, b.some(n))
		if err != nil {
			return "", err
		}
		floor, err := peers.WakeUp(ctx, b.urls(n), wakeUps)
		if err != nil {
			return "", err
		}
		least := micros(float64(measure.Median(floor)))
		return fmt.Sprintf("The least that a handoff takes: a message of one master wakes a subscriber, and a script "+
			"that does nothing then goes to all masters and back from a majority. That takes %s (p50 of %d).\n\n%s",
			least, wakeUps, profile.OfMasters(r.Usage, max(1, len(r.Waits)), "handoff")), nil
	}
}

const wakeUps = 500
