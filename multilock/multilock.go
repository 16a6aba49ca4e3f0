// Package multilock makes a lock that holds when every one of several independent Redis masters granted it, as Redisson's
// MultiLock does. It survives the loss of no master, but while it holds, no set of masters that forget can give it to another
// as long as one of them remembers.
package multilock

import (
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Open returns a Locker over one node for each URL, which it owns: closing it closes them. See node.Open for the URLs and
// quorum.New for the rest.
func Open(urls []string, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.Open(urls, quorum.All, opts...)
}

// New returns a Locker over nodes that the caller goes on owning. See quorum.New.
func New(nodes []*node.Node, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.New(nodes, quorum.All, opts...)
}
