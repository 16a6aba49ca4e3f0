// Package redlock makes a lock that holds when a majority of an odd number of independent Redis masters granted it, inside a
// validity window corrected for the time spent and for clock drift. It survives the loss of a minority.
//
// The algorithm starts from https://redis.io/docs/latest/develop/use/patterns/distributed-locks/; docs/design.md says what was
// added and why.
package redlock

import (
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Open returns a Locker over one node for each URL, which it owns: closing it closes them. See node.Open for the URLs and
// quorum.New for the rest. An even number is refused with quorum.ErrInvalid.
func Open(urls []string, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.Open(urls, quorum.Majority, opts...)
}

// New returns a Locker over nodes that the caller goes on owning. See quorum.New.
func New(nodes []*node.Node, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.New(nodes, quorum.Majority, opts...)
}
