package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// manyCallers is enough for a shared pipeline to pay off.
const manyCallers = 256

// pairs measures lock and unlock without contention, and their allocations.
func (b *bench) pairs(ctx context.Context) error {
	for _, n := range b.masters {
		if err := b.use(n); err != nil {
			return err
		}
		sides, err := openSides(b.urls(n))
		if err == nil {
			err = b.pairsOver(ctx, n, sides)
		}
		if err := errors.Join(err, closeAll(sides)); err != nil {
			return err
		}
	}
	return nil
}

// The order of the sides that run in turns.
const (
	library = iota
	fastRedsync
	noOp
	bare
)

func openSides(urls []string) (sides []peers.Peer, err error) {
	ours, err := peers.OpenLibrary(urls)
	if err != nil {
		return nil, err
	}
	sides = append(sides, ours, peers.OpenFastRedsync(urls))
	for _, open := range []func([]string) (*peers.Floor, error){peers.OpenNoOp, peers.OpenBare} {
		floor, err := open(urls)
		if err != nil {
			return sides, err
		}
		sides = append(sides, floor)
	}
	return sides, nil
}

func closeAll(sides []peers.Peer) error {
	var errs []error
	for _, side := range sides {
		errs = append(errs, side.Close())
	}
	return errors.Join(errs...)
}

func (b *bench) pairsOver(ctx context.Context, n int, sides []peers.Peer) error {
	for _, callers := range []int{1, manyCallers} {
		load := measure.Load{Callers: callers, For: b.slice, Names: "pair", Masters: b.some(n)}
		for _, side := range sides { // connections are made, heaps grow
			if _, err := load.Run(ctx, side); err != nil {
				return err
			}
		}
		samples, err := measure.Alternate(len(sides), b.rounds, func(side int) (measure.Sample, error) {
			s, err := load.Run(ctx, sides[side])
			if err == nil && s.Pairs == 0 {
				err = fmt.Errorf("%s did not lock once: %w", sides[side].Name(), s.Failure)
			}
			return s, err
		})
		if err != nil {
			return err
		}
		b.report.add(pairRows(n, callers, sides, samples)...)
	}
	return nil
}

func pairRows(n, callers int, sides []peers.Peer, samples [][]measure.Sample) []row {
	times := make([][]time.Duration, len(samples))
	for side := range samples {
		times[side] = measure.Of(samples[side], measure.Sample.PerPair)
	}
	pair := row{what: fmt.Sprintf("lock+unlock, N=%d, %d callers", n, callers), beside: "redsync"}
	if callers == 1 {
		pair.what = fmt.Sprintf("lock+unlock, N=%d, 1 caller", n)
		ratio := measure.Ratio(times[library], times[fastRedsync])
		pair.ours, pair.theirs = micros(times[library]), micros(times[fastRedsync])
		pair.ratio, pair.budget, pair.met = times2(ratio), "≤ 1.0 × its time", ratio <= 1
	} else {
		ratio := measure.Ratio(times[fastRedsync], times[library])
		pair.ours, pair.theirs = perSecond(times[library]), perSecond(times[fastRedsync])
		pair.ratio, pair.budget, pair.met = times2(ratio), "≥ 3 × its throughput", ratio >= 3
	}
	pair.details = strings.TrimSuffix(
		"processor time for each pair: "+processorTime(sides, samples)+". "+failures(sides, samples), ". ")

	floor := measure.Ratio(times[library], times[noOp])
	same := measure.Ratio(times[library], times[bare])
	rows := []row{pair,
		{what: pair.what, ours: micros(times[library]), beside: "no-op script", theirs: micros(times[noOp]),
			ratio: times2(floor), budget: "≤ 1.5 × its time", met: floor <= 1.5},
		{what: pair.what, ours: micros(times[library]), beside: "same scripts", theirs: micros(times[bare]),
			ratio: times2(same)},
		processorRow(pair.what, fastRedsync, "redsync", samples),
		processorRow(pair.what, noOp, "no-op script", samples),
	}
	if n == 3 && callers == 1 {
		rows = append(rows, allocations(samples))
	}
	return rows
}

func allocations(samples [][]measure.Sample) row {
	per := func(side int) float64 {
		return measure.Median(measure.Of(samples[side], func(s measure.Sample) float64 {
			return float64(s.Allocs) / float64(s.Pairs)
		}))
	}
	ours, theirs := per(library), per(fastRedsync)
	return row{what: "allocations per lock+unlock, N=3", ours: fmt.Sprintf("%.2f", ours), beside: "redsync",
		theirs: fmt.Sprintf("%.2f", theirs),
		ratio:  times2(ours / theirs), budget: "≤ 25", met: ours <= 25}
}

// processorRow compares a pair's cost to all processes together. It tells more than elapsed time
// where all of them wait for processors, as with many callers on a shared machine.
func processorRow(what string, beside int, name string, samples [][]measure.Sample) row {
	per := func(s measure.Sample) time.Duration {
		return (s.CPU.Callers + s.CPU.Masters) / time.Duration(s.Pairs)
	}
	ours, theirs := measure.Of(samples[library], per), measure.Of(samples[beside], per)
	return row{what: "processor time of " + what, ours: micros(ours), beside: name, theirs: micros(theirs),
		ratio: times2(measure.Ratio(ours, theirs))}
}

// processorTime tells the processor time of a pair, which other users of the machine hardly change.
func processorTime(sides []peers.Peer, samples [][]measure.Sample) string {
	var parts []string
	per := func(s measure.Sample, used time.Duration) time.Duration { return used / time.Duration(s.Pairs) }
	for side, all := range samples {
		callers := measure.Of(all, func(s measure.Sample) time.Duration { return per(s, s.CPU.Callers) })
		masters := measure.Of(all, func(s measure.Sample) time.Duration { return per(s, s.CPU.Masters) })
		parts = append(parts, fmt.Sprintf("%s %s in the callers' process and %s in the masters'", sides[side].Name(),
			micros(callers), micros(masters)))
	}
	return strings.Join(parts, "; ")
}

// failures tells which sides' pairs failed, "" for none.
func failures(sides []peers.Peer, samples [][]measure.Sample) string {
	var parts []string
	for side, all := range samples {
		var sum measure.Sample
		for _, s := range all {
			sum.Pairs += s.Pairs
			sum.Failed += s.Failed
			if sum.Failure == nil {
				sum.Failure = s.Failure
			}
		}
		if sum.Failed == 0 {
			continue
		}
		parts = append(parts, fmt.Sprintf("%d of %d pairs of %s failed, the first with %q", sum.Failed,
			sum.Failed+sum.Pairs, sides[side].Name(), sum.Failure))
	}
	return strings.Join(parts, "; ")
}

func micros(all []time.Duration) string {
	return fmt.Sprintf("%.1f µs", float64(measure.Median(all).Nanoseconds())/1000)
}

func perSecond(perPair []time.Duration) string {
	return fmt.Sprintf("%.0f/s", 1/measure.Median(perPair).Seconds())
}

func times2(ratio float64) string { return fmt.Sprintf("%.2f ×", ratio) }
