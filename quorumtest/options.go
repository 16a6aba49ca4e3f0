package quorumtest

import (
	"math/rand/v2"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// WithClock sets the clock of a new Locker (default [clock.System]).
func WithClock(c clock.Clock) quorum.Option {
	return inside.Option[quorum.Option](func(s *inside.Settings) { s.Clock = c })
}

// WithRand sets the source of the jitter in a new Locker's waits, so that a test can replay them. One
// goroutine at a time uses it (default: a source seeded at random).
func WithRand(source rand.Source) quorum.Option {
	return inside.Option[quorum.Option](func(s *inside.Settings) { s.Random = source })
}

// WithNodeRand sets the source of the jitter between a node's probes, so that a test can replay it
// (default: seeded by the runtime). Only [node.Open] and [node.New] use the source, to seed others.
func WithNodeRand(source rand.Source) node.Option {
	return inside.Option[node.Option](func(s *inside.Settings) { s.Random = source })
}
