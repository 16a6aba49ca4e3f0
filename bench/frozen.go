package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// states is a peer's healthy run and its run with a master frozen, one after the other.
type states struct{ healthy, frozen measure.Sample }

// frozenMaster measures how much a frozen master slows calls that do not need it.
func (b *bench) frozenMaster(ctx context.Context) error {
	const n = 3
	if err := b.use(n); err != nil {
		return err
	}
	ours, err := peers.OpenLibrary(b.urls(n))
	if err != nil {
		return err
	}
	sides := []peers.Peer{ours, peers.OpenFastRedsync(b.urls(n))}
	turn := 0
	for _, callers := range []int{1, 64} {
		load := measure.Load{Callers: callers, For: b.frozen}
		var samples [][]states
		samples, err = measure.Alternate(len(sides), b.freezes, func(side int) (states, error) {
			turn++
			return b.freeze(ctx, sides[side], load, turn)
		})
		if err != nil {
			break
		}
		b.report.add(frozenRows(callers, sides, samples)...)
	}
	return errors.Join(err, closeAll(sides))
}

// freeze runs a load, then the same load with one master frozen, and lets the peer recover.
func (b *bench) freeze(ctx context.Context, p peers.Peer, load measure.Load, turn int) (s states, err error) {
	frozen := b.fleet.Masters[turn%3]
	// Each run has names of its own: redsync's fast answers leave keys behind until their expiry,
	// and with another master frozen these names cannot be locked. The measurement is not about
	// that.
	name := func(state string) measure.Load {
		load.Names = fmt.Sprintf("%s:%d", state, turn)
		return load
	}
	if s.healthy, err = name("healthy").Run(ctx, p); err != nil {
		return s, err
	}
	if err := frozen.Freeze(); err != nil {
		return s, err
	}
	s.frozen, err = name("frozen").Run(ctx, p)
	if err := errors.Join(err, frozen.Thaw()); err != nil {
		return s, err
	}
	// The next run starts with connections to all masters, and no master still works on earlier
	// commands.
	load.For /= 2
	_, err = name("thawed").Run(ctx, p)
	return s, err
}

func frozenRows(callers int, sides []peers.Peer, samples [][]states) []row {
	what := fmt.Sprintf("one master frozen, N=3, %d callers, p99", callers)
	if callers == 1 {
		what = "one master frozen, N=3, 1 caller, p99"
	}
	p99 := func(s measure.Sample) time.Duration { return measure.Percentile(0.99, s.Took) }
	var rows []row
	for side, all := range samples {
		healthy := measure.Of(all, func(s states) time.Duration { return p99(s.healthy) })
		frozen := measure.Of(all, func(s states) time.Duration { return p99(s.frozen) })
		ratio := measure.Ratio(frozen, healthy)
		if side == library {
			rows = append(rows, row{what: what, ours: micros(frozen), beside: "itself healthy",
				theirs: micros(healthy), ratio: times2(ratio),
				budget: "≤ 1.5 × its healthy p99", met: ratio <= 1.5})
			continue
		}
		rows = append(rows, row{what: what + " of redsync", beside: "redsync frozen " + micros(frozen) + ", healthy",
			theirs: micros(healthy), ratio: times2(ratio)})
	}
	var flat [][]measure.Sample
	for _, all := range samples {
		var both []measure.Sample
		for _, s := range all {
			both = append(both, s.healthy, s.frozen)
		}
		flat = append(flat, both)
	}
	rows[0].details = failures(sides, flat)
	return rows
}
