// Package multilock opens lockers whose locks need a grant from every one of several independent Redis masters,
// as with Redisson's MultiLock. While one master is down or in quarantine nothing new is locked, and a held lock
// is lost when that master's grant ends. In return, one master that remembers its grant is enough to keep
// others out. Most programs want package redlock.
//
//	locker, err := multilock.Open([]string{"redis://10.0.0.1", "redis://10.0.0.2"})
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	return locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
//		return charge(ctx, lock.Token())
//	}, "invoice:42")
package multilock

import (
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Open returns a Locker over one node for each URL (see [node.Open]). The Locker owns the nodes: [quorum.Locker.Close]
// closes them. Masters that do not answer are no error: [quorum.Locker.Ready] reports them. The error is
// [quorum.Open]'s.
func Open(urls []string, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.Open(urls, quorum.All, opts...)
}

// New returns a Locker over the caller's nodes, which the caller closes after the Locker. The error is
// [quorum.New]'s.
func New(nodes []*node.Node, opts ...quorum.Option) (*quorum.Locker, error) {
	return quorum.New(nodes, quorum.All, opts...)
}
