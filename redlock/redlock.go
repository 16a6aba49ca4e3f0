// Package redlock opens lockers whose locks hold when a majority of an odd number of independent Redis
// masters has granted them: the choice in nearly all cases. A lock survives the loss of a minority of the
// masters.
//
//	locker, err := redlock.Open([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	return locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
//		return charge(ctx, lock.Token())
//	}, "invoice:42")
//
// Package quorum has the Locker, its options and its errors. The algorithm starts from
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/; docs/design.md says what it adds, and why.
package redlock

import (
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Open returns a Locker over one node for each URL (see [node.Open]). The Locker owns the nodes: [quorum.Locker.Close]
// closes them. Masters that do not answer are no error: [quorum.Locker.Ready] reports them.
//
// The error is [quorum.Open]'s. It wraps [quorum.ErrInvalid] for an even number of URLs, unless a master already has
// that list, as in the middle of a change of members.
func Open(urls []string, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.Open(urls, quorum.Majority, opts...)
}

// New returns a Locker over the caller's nodes, which the caller closes after the Locker. The error is
// [quorum.New]'s; an even number of nodes is refused as by [Open].
func New(nodes []*node.Node, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.New(nodes, quorum.Majority, opts...)
}
