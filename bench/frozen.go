package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// states is a peer's healthy run and its run with a master frozen, one after the other.
type states struct{ healthy, frozen measure.Sample }

// measureFrozen measures how much a frozen master slows calls that do not need it.
func measureFrozen(callers int) func(*bench, context.Context, int) (*outcome, error) {
	return func(b *bench, ctx context.Context, n int) (*outcome, error) {
		library, err := peers.OpenLibrary(b.urls(n))
		if err != nil {
			return nil, err
		}
		sides := []peers.Peer{library, peers.OpenFastRedsync(b.urls(n))}
		defer closeAll(sides)
		load := measure.Load{Callers: callers, For: b.frozen, Masters: b.some(n)}
		turn := 0
		all, err := measure.Alternate(len(sides), b.freezes, func(side int) (states, error) {
			turn++
			return b.freeze(ctx, sides[side], load, turn)
		})
		if err != nil {
			return nil, err
		}
		return outcomeOfStates(sides, all), nil
	}
}

// freeze runs a load, then the same load with one master frozen, and lets the peer recover.
func (b *bench) freeze(ctx context.Context, p peers.Peer, load measure.Load, turn int) (s states, err error) {
	masters := load.Masters
	frozen := masters[turn%len(masters)]
	// Each run has names of its own: redsync's fast answers leave keys behind until their expiry,
	// and with another master frozen these names cannot be locked. The measurement is not about
	// that. A frozen master does not report its usage, and has none.
	in := func(state string) measure.Load {
		load.Names = fmt.Sprintf("%s:%d", state, turn)
		load.Masters = slices.DeleteFunc(slices.Clone(masters), func(m *redistest.Master) bool {
			return state == "frozen" && m == frozen
		})
		return load
	}
	if s.healthy, err = in("healthy").Run(ctx, p); err != nil {
		return s, err
	}
	if err := frozen.Freeze(); err != nil {
		return s, err
	}
	s.frozen, err = in("frozen").Run(ctx, p)
	if err := errors.Join(err, frozen.Thaw()); err != nil {
		return s, err
	}
	// The next run starts with connections to all masters, and no master still works on earlier
	// commands.
	load.For /= 2
	_, err = in("thawed").Run(ctx, p)
	return s, err
}

// outcomeOfStates has a side for each peer's state: "healthy" and "redsync healthy".
func outcomeOfStates(sides []peers.Peer, all [][]states) *outcome {
	o := &outcome{rounds: map[string][]figures{}}
	failures := make([][]measure.Sample, len(sides))
	for side, rounds := range all {
		prefix := ""
		if side > 0 {
			prefix = sides[side].Name() + " "
		}
		for _, s := range rounds {
			o.rounds[prefix+"healthy"] = append(o.rounds[prefix+"healthy"], ofPairs(s.healthy))
			o.rounds[prefix+"frozen"] = append(o.rounds[prefix+"frozen"], ofPairs(s.frozen))
			failures[side] = append(failures[side], s.healthy, s.frozen)
		}
	}
	o.tellFailures(failures, namesOf(sides))
	return o
}
