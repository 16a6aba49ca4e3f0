package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/delay"
	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/bench/internal/profile"
)

// distance is how much longer each reply takes on its way from a master.
const distance = time.Millisecond

// measureAway is measurePairs of one caller that is a delay away from every master. The no-op
// script shows what the proxies themselves take: it is two of their round trips.
func measureAway(b *bench, ctx context.Context, n int) (o *outcome, err error) {
	err = b.fromAway(ctx, n, func(sides []peers.Peer) (err error) {
		o, err = b.pairs(ctx, sides, 1, b.rounds, b.some(n))
		return err
	})
	if err != nil {
		return nil, err
	}
	floor, _ := o.median(reading{noOp, elapsed})
	o.tell("each reply is %v late; two round trips to a majority, through the proxies and without a lock, take %s",
		distance, micros(floor))
	return o, nil
}

// fromAway gives sides away from the masters.
func (b *bench) fromAway(ctx context.Context, n int, do func([]peers.Peer) error) (err error) {
	proxies, err := delay.Start(ctx, b.some(n), distance)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxies.Close()) }()
	sides, err := openSides(proxies.URLs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(sides)) }()
	return do(sides)
}

func profileAway(b *bench, ctx context.Context, n int) (text string, err error) {
	err = b.fromAway(ctx, n, func(sides []peers.Peer) (err error) {
		load := measure.Load{Callers: 1, For: b.profiled(), Names: "profile", Masters: b.some(n)}
		text, err = profile.OfLoad(ctx, load, sides[0])
		return err
	})
	return text, err
}
