package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/handoff"
	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

const (
	handoffP50 = time.Millisecond
	handoffP99 = 10 * time.Millisecond
)

// handoffs measures how a lock passes between processes: among many contenders, and to a single
// waiter.
func (b *bench) handoffs(ctx context.Context) error {
	for _, plan := range []struct {
		what string
		handoff.Plan
	}{
		{fmt.Sprintf("handoff, %d contenders in as many processes", b.processes), handoff.Plan{
			Contenders: b.processes, Processes: b.processes, Locks: 1, Hold: time.Millisecond,
			Away: 5 * time.Millisecond, For: b.pass}},
		{fmt.Sprintf("handoff to a waiter, 64 locks, %d processes", b.processes), handoff.Plan{
			Contenders: 128, Processes: b.processes, Locks: 64, Hold: 260 * time.Millisecond,
			Away: 260 * time.Millisecond, For: b.pass}},
	} {
		for _, n := range b.masters {
			if err := b.use(n); err != nil {
				return err
			}
			rounds, err := measure.Alternate(len(handoff.Peers), b.passes, func(side int) (handoff.Round, error) {
				return plan.Run(ctx, handoff.Peers[side], b.some(n))
			})
			if err != nil {
				return err
			}
			b.report.add(handoffRows(fmt.Sprintf("%s, N=%d", plan.what, n), handoff.Sum(rounds[0]),
				handoff.Sum(rounds[1]))...)
		}
	}
	return nil
}

func handoffRows(what string, ours, theirs handoff.Round) []row {
	// One percentile of all rounds. Without a handoff there is none, and the budget is not met.
	percentile := func(name string, of func(handoff.Round) time.Duration, budget time.Duration) row {
		r := row{what: what + ", " + name, ours: millis(of(ours)), beside: "redsync", theirs: millis(of(theirs)),
			budget: fmt.Sprintf("≤ %v", budget), met: len(ours.Handoffs) > 0 && of(ours) <= budget}
		if len(theirs.Handoffs) > 0 {
			r.ratio = times2(float64(of(ours)) / float64(of(theirs)))
		}
		return r
	}
	p50 := percentile("p50", handoff.Round.P50, handoffP50)
	p99 := percentile("p99", handoff.Round.P99, handoffP99)
	p50.details = fmt.Sprintf("quorumlock: %s. redsync: %s", ours.Details(), theirs.Details())
	return []row{p50, p99}
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
