// Package inside lets the packages of this module reach what is not for programs that use them: the
// inside of a node or a Locker, for example, and the settings that only tests change. Their types embed types of this
// package whose methods no other package can name.
package inside

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

// Unnamed is the name of a node over a pool before its first connection.
const Unnamed = "pool"

// Node is the inside of a *node.Node.
type Node struct {
	Pipes         []*pipeline.Pipe
	Subscriptions *pubsub.Subscriptions
	Named         bool          // by an option or the URL
	Alone         bool          // no other process reaches the master: no list has it beside others
	Prefix        string        // of keys and channels: scripts.KeyPrefix
	Quarantine    time.Duration // how long one lasts, by the node's options; 0 for none
	Replicas      int           // that may take the master's place, by the node's options; 0 for none
	Log           pipeline.Log
	Server        Server
	Lifetime      context.Context // ends with the node's Close
}

// Pipe returns the pipeline for calls with that key. Calls with one key are carried out in the order
// of their starts.
func (n *Node) Pipe(key string) *pipeline.Pipe {
	if len(n.Pipes) == 1 {
		return n.Pipes[0]
	}
	return n.Pipes[scripts.Hash(key)%uint32(len(n.Pipes))]
}

// Each calls f for all nodes, or whatever is given, at once, and waits for all of them. The first error ends the context
// of the others, and is returned.
func Each[N any](ctx context.Context, nodes []N, f func(ctx context.Context, i int, n N) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, n := range nodes {
		group.Go(func() error { return f(ctx, i, n) })
	}
	return group.Wait()
}
