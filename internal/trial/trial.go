// Package trial tries a lock on one master alone: it finds what a look at the master does not show, such as missing
// permissions or replicas, a full disk, or a command that is renamed.
package trial

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lease is the lease of a trial: after a crash, the lock is soon gone.
func Lease(n *node.Node) time.Duration { return min(4*n.Timeout(), n.MaxLease()) }

// Lock acquires, renews and releases a lock as clients with that list of masters do. It leaves nothing but the name's token
// counter. While the lock is held, meanwhile is called with what acquired it, unless it is nil. The reply is that to the
// acquire, which says whether the master grants, and that to the release. The error is a *node.Error.
func Lock(ctx context.Context, n *node.Node, list *scripts.List, name scripts.Name, owner scripts.Owner,
	meanwhile func(scripts.AcquireArgs) error) (scripts.Reply, error) {
	pipe, footprint := inside.Of(n).Pipe(name.String()), new(pipeline.Footprint)
	do := func(call scripts.Call) pipeline.Result { return pipe.DoAs(ctx, call, footprint) }
	names := []scripts.Name{name}
	lease := scripts.ToMillis(Lease(n))
	acquire := scripts.AcquireArgs{Names: names, Owner: owner, Depth: 1, Lease: lease, List: list, Seed: 1}
	acquired := do(scripts.Acquire(acquire))
	reply := acquired.Reply
	if acquired.NothingDone || acquired.Err == nil && reply.Acquire.Outcome != scripts.Granted {
		return reply, acquired.Err
	}
	footprint.Abandon()
	release := scripts.Release(names, owner, 0)
	renewed := acquired
	if acquired.Err == nil {
		renewed = do(scripts.Renew(list, lease, []scripts.Renewal{{Names: names, Owner: owner, Token: reply.Acquire.Token}}))
	}
	if renewed.Err == nil && meanwhile != nil {
		renewed.Err = meanwhile(acquire)
	}
	if renewed.Err != nil { // the grant, or half of it, may be there
		pipe.Start(release, footprint, nil)
		return reply, renewed.Err
	}
	released := do(release)
	reply.Release = released.Reply.Release
	if released.Err == nil && (renewed.Reply.Renew[0] != scripts.Kept || reply.Release.Found != 1) {
		return reply, &node.Error{Node: n.Name(), Op: "renew", Err: errors.New("the lock that was just acquired is gone")}
	}
	return reply, released.Err
}
