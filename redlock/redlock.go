// Package redlock makes a lock that holds when a majority of an odd number of independent Redis
// masters granted it. The lock survives the loss of a minority of them.
//
// A grant counts within a validity window that is corrected for the time spent and for clock drift.
// The algorithm starts from https://redis.io/docs/latest/develop/use/patterns/distributed-locks/;
// docs/design.md says what it adds, and why.
package redlock

import (
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Open returns a Locker over one node for each URL (see [node.Open]). The Locker owns the nodes:
// [quorum.Locker.Close] closes them. The error wraps [quorum.ErrInvalid] for an even number of
// URLs, and for what [quorum.New] refuses.
func Open(urls []string, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.Open(urls, quorum.Majority, opts...)
}

// New returns a Locker over the caller's nodes, which the caller closes after the Locker. The error
// wraps [quorum.ErrInvalid] for an even number of nodes, and for what [quorum.New] refuses.
func New(nodes []*node.Node, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.New(nodes, quorum.Majority, opts...)
}
