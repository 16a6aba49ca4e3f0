package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// measurePairs returns the test of lock and unlock without contention.
func measurePairs(callers int) func(*bench, context.Context, int) (*outcome, error) {
	return func(b *bench, ctx context.Context, n int) (*outcome, error) {
		sides, err := openSides(b.urls(n))
		if err != nil {
			return nil, err
		}
		defer closeAll(sides)
		return b.pairs(ctx, sides, callers, b.rounds, b.some(n))
	}
}

// pairs runs the sides by turns, after a slice in which connections are made and heaps grow.
func (b *bench) pairs(
	ctx context.Context, sides []peers.Peer, callers, rounds int, masters []*redistest.Master,
) (*outcome, error) {
	load := measure.Load{Callers: callers, For: b.slice, Names: "pair", Masters: masters}
	for _, side := range sides {
		if _, err := load.Run(ctx, side); err != nil {
			return nil, err
		}
	}
	samples, err := measure.Alternate(len(sides), rounds, func(side int) (measure.Sample, error) {
		return load.Run(ctx, sides[side])
	})
	if err != nil {
		return nil, err
	}
	o := outcomeOf(namesOf(sides), samples, ofPairs)
	o.tellFailures(samples, namesOf(sides))
	return o, nil
}

func openSides(urls []string) ([]peers.Peer, error) {
	return openAll(
		func() (peers.Peer, error) { return peers.OpenLibrary(urls) },
		func() (peers.Peer, error) { return peers.OpenFastRedsync(urls), nil },
		func() (peers.Peer, error) { return peers.OpenNoOp(urls) },
		func() (peers.Peer, error) { return peers.OpenBare(urls) })
}

// openAll opens all sides or none.
func openAll(opens ...func() (peers.Peer, error)) (sides []peers.Peer, err error) {
	for _, open := range opens {
		side, err := open()
		if err != nil {
			return nil, errors.Join(err, closeAll(sides))
		}
		sides = append(sides, side)
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

func namesOf(sides []peers.Peer) []string {
	return measure.Of(sides, peers.Peer.Name)
}

// tellFailures reports which sides' pairs failed.
func (o *outcome) tellFailures(samples [][]measure.Sample, names []string) {
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
		if sum.Failed > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d pairs of %s failed, the first with %q", sum.Failed,
				sum.Failed+sum.Pairs, names[side], sum.Failure))
		}
	}
	if len(parts) > 0 {
		o.tell("%s", strings.Join(parts, "; "))
	}
}
