package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/bench/internal/profile"
	"github.com/quorumlock/quorumlock/quorum"
)

// measureRenewing measures one caller alone, and while its process holds many locks.
func measureRenewing(b *bench, ctx context.Context, n int) (o *outcome, err error) {
	library, err := b.openRenewing(n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	load := measure.Load{Callers: 1, For: time.Duration(b.waves) * b.renewals, Names: "renewing", Masters: b.some(n)}
	names := []string{"alone", "beside renewals"}
	held := &crew{locker: library.Locker()}
	lost := 0
	samples, err := measure.Alternate(len(names), b.passes, func(side int) (s measure.Sample, err error) {
		if side == 1 {
			if err := held.grow(ctx, b.renewed); err != nil {
				return s, err
			}
		}
		s, err = load.Run(ctx, library)
		lost += held.lost()
		return s, errors.Join(err, held.release(ctx))
	})
	if err != nil {
		return nil, err
	}
	o = outcomeOf(names, samples, ofPairs)
	o.tell("%d of the locks that the process held were lost", lost)
	o.tellFailures(samples, names)
	return o, nil
}

func (b *bench) openRenewing(n int) (*peers.Library, error) {
	return peers.OpenLibrary(b.urls(n), quorum.WithLease(3*b.renewals))
}

func profileRenewing(b *bench, ctx context.Context, n int) (text string, err error) {
	library, err := b.openRenewing(n)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	held := &crew{locker: library.Locker()}
	if err := held.grow(ctx, b.renewed); err != nil {
		return "", err
	}
	load := measure.Load{Callers: 1, For: b.renewals, Names: "profile", Masters: b.some(n)}
	text, err = profile.OfLoad(ctx, load, library)
	return text, errors.Join(err, held.release(ctx))
}
