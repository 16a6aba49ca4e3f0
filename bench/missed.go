package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/bench/internal/profile"
)

// profileMissed profiles the tests of the budgets that were missed.
func (b *bench) profileMissed(ctx context.Context, tests []test, r *report) error {
	missed := map[place]bool{}
	for _, l := range lines(budgets, r.results) {
		if l.verdict() == notMet {
			missed[l.at] = true
		}
	}
	began := time.Now()
	for _, t := range tests {
		for _, n := range t.masters {
			at := place{t.name, n}
			if !missed[at] || t.profile == nil {
				continue
			}
			err := b.flush()
			if err == nil {
				r.profiles[at], err = t.profile(b, ctx, n)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				r.profiles[at] = fmt.Sprintf("No profile: %v.\n", err)
			}
		}
	}
	if len(r.profiles) > 0 {
		fmt.Fprintf(b.log, "profiles: %v\n", time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// profiled is for how long a profile is taken: longer than a slice, for enough samples.
func (b *bench) profiled() time.Duration { return 12 * b.slice }

// profileOf returns the profile of measurePairs.
func profileOf(callers int) func(*bench, context.Context, int) (string, error) {
	return func(b *bench, ctx context.Context, n int) (text string, err error) {
		library, err := peers.OpenLibrary(b.urls(n))
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, library.Close()) }()
		load := measure.Load{Callers: callers, For: b.profiled(), Names: "profile", Masters: b.some(n)}
		return profile.OfLoad(ctx, load, library)
	}
}
