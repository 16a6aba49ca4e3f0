package quorum

import (
	"time"

	"golang.org/x/sync/errgroup"
)

// Close ends the Locker. The contexts of locks that are still held end with [ErrClosed], and their
// renewal stops; their keys are left to their leases, since the work may be running. Calls that
// wait return ErrClosed. Close waits for releases that are on their way, for at most two timeouts
// of a node; then it closes the nodes, if [Open] made them. It is idempotent and returns nil.
func (l *Locker) Close() error {
	c := l.core
	c.closeOnce.Do(func() {
		c.Engine.Close()
		c.endNodes()
	})
	return nil
}

// endNodes waits for the requests that are on their way, and closes the nodes that Open made.
func (c *core) endNodes() {
	bound := time.NewTimer(2 * c.Nodes[0].Timeout())
	defer bound.Stop()
	select {
	case <-c.Idle():
		select {
		case <-c.events.Idle():
		case <-bound.C:
		}
	case <-bound.C:
	}
	if c.owned {
		var group errgroup.Group
		for _, n := range c.Nodes {
			group.Go(n.Close)
		}
		group.Wait()
	}
}
