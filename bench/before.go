package main

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/revision"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// revisionBefore is the tree before the library shared the masters' work between callers.
const revisionBefore = "38c353a"

const programBefore = "before" // its directory in bench/

// measureBefore measures the same program, built from this tree and from the one before, each over
// masters of its own.
func measureBefore(b *bench, ctx context.Context, n int) (o *outcome, err error) {
	programs, err := b.programs(ctx)
	if errors.Is(err, revision.ErrNoHistory) {
		return &outcome{skipped: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	fleet, err := redistest.StartReal(n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	return b.beside(ctx, programs, [][]*redistest.Master{b.some(n), fleet.Masters})
}

// programs builds the program of this tree and of the one before, once.
func (b *bench) programs(ctx context.Context) ([]string, error) {
	if b.built != nil {
		return b.built, nil
	}
	old, err := revision.Build(ctx, programBefore, revisionBefore, b.dir)
	if err != nil {
		return nil, err
	}
	this, err := revision.BuildThis(ctx, programBefore, b.dir)
	if err != nil {
		return nil, err
	}
	b.built = []string{this, old}
	return b.built, nil
}

// beside runs the two programs by turns.
func (b *bench) beside(ctx context.Context, programs []string, masters [][]*redistest.Master) (o *outcome, err error) {
	var workers []*revision.Worker
	for side, program := range programs {
		w, err := revision.Start(ctx, program, 256, masters[side])
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		workers = append(workers, w)
		if _, err := w.Run(b.slice); err != nil { // heaps grow
			return nil, err
		}
	}
	samples, err := measure.Alternate(len(workers), b.rounds, func(side int) (measure.Sample, error) {
		return workers[side].Run(b.slice)
	})
	if err != nil {
		return nil, err
	}
	names := []string{ours, before}
	o = outcomeOf(names, samples, ofPairs)
	o.tellFailures(samples, names)
	o.tell("the tree before is %s; each side is a process over masters of its own", revisionBefore)
	return o, nil
}
