// Package multilock makes a lock that holds when every one of several independent Redis masters
// granted it, as Redisson's MultiLock does. The lock survives the loss of no master. While it
// holds, one master that remembers its grant is enough to keep another owner out, even if all
// others forget theirs.
package multilock

import (
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Open returns a Locker over one node for each URL (see [node.Open]). The Locker owns the nodes:
// [quorum.Locker.Close] closes them. The error wraps [quorum.ErrInvalid] for what [quorum.New]
// refuses.
func Open(urls []string, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.Open(urls, quorum.All, opts...)
}

// New returns a Locker over the caller's nodes, which the caller closes after the Locker. The error
// wraps [quorum.ErrInvalid] for what [quorum.New] refuses.
func New(nodes []*node.Node, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.New(nodes, quorum.All, opts...)
}
