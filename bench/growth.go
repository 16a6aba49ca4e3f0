package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// The tests that grow one thing by 10 and by 100.
const (
	moreCallers = "growth of callers"
	moreNames   = "growth of names"
	moreHeld    = "growth of held locks"
)

// growing is how many callers there are while something else grows.
const growing = 16

// perStep is how many names, or held locks, there are for each caller of the steps.
const perStep = 100

// steps are the sides' names.
func steps(counts []int, times int) []string {
	return measure.Of(counts, func(n int) string { return strconv.Itoa(n * times) })
}

func measureMoreCallers(b *bench, ctx context.Context, n int) (*outcome, error) {
	return b.grow(n, 1, func(library *peers.Library, callers int) (measure.Sample, error) {
		load := measure.Load{Callers: callers, For: b.slice, Names: "callers", Masters: b.some(n)}
		if _, err := load.Run(ctx, library); err != nil { // heaps grow
			return measure.Sample{}, err
		}
		load.For = 5 * b.slice
		return load.Run(ctx, library)
	})
}

// measureMoreNames uses every name once before: the masters then have their counters.
func measureMoreNames(b *bench, ctx context.Context, n int) (*outcome, error) {
	return b.grow(n, perStep, func(library *peers.Library, names int) (measure.Sample, error) {
		load := measure.Load{Callers: growing, For: 5 * b.slice, Names: "names", NameCount: names, Masters: b.some(n)}
		if err := load.Visit(ctx, library); err != nil {
			return measure.Sample{}, err
		}
		return load.Run(ctx, library)
	})
}

// measureMoreHeld measures pairs in a process that holds more and more other locks, and renews
// them.
func measureMoreHeld(b *bench, ctx context.Context, n int) (o *outcome, err error) {
	library, held, err := b.openHeld(ctx, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	o = &outcome{rounds: map[string][]figures{}}
	for i, name := range steps(b.growth, perStep) {
		if err := held.grow(ctx, b.growth[i]*perStep); err != nil {
			return nil, err
		}
		load := measure.Load{Callers: growing, For: b.settle, Names: "held", Masters: b.some(n)}
		sample, err := load.Run(ctx, library)
		if err != nil {
			return nil, err
		}
		o.rounds[name] = []figures{ofPairs(sample)}
	}
	if lost := held.lost(); lost > 0 {
		o.tell("%d of the held locks were lost", lost)
	}
	return o, nil
}

// grow measures each step for itself.
func (b *bench) grow(n, times int, do func(*peers.Library, int) (measure.Sample, error)) (o *outcome, err error) {
	library, err := peers.OpenLibrary(b.urls(n))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	o = &outcome{rounds: map[string][]figures{}}
	for i, name := range steps(b.growth, times) {
		sample, err := do(library, b.growth[i]*times)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		o.rounds[name] = []figures{ofPairs(sample)}
	}
	return o, nil
}
