// Package trial tries a lock on one master alone: it finds what a look at the master does not show, such as missing
// permissions or replicas, a full disk, or a command that is renamed.
package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lock acquires, renews and releases a lock as clients with that list of masters do. It leaves nothing but the
// name's token counter. The reply says whether the master grants. The error is a *node.Error.
func Lock(ctx context.Context, n *node.Node, list *scripts.List, name scripts.Name) (scripts.AcquireReply, error) {
	pipe, footprint := inside.Of(n).Pipe(name.String()), new(pipeline.Footprint)
	do := func(call scripts.Call) pipeline.Result {
		done := make(receiver, 1)
		if err := pipe.Start(call, footprint, done); err != nil {
			return pipeline.Result{Err: err, NothingDone: true}
		}
		select {
		case r := <-done:
			return r
		case <-ctx.Done():
			return pipeline.Result{Err: &node.Error{Node: n.Name(), Op: call.Op(), Err: ctx.Err()}}
		}
	}
	names, owner := []scripts.Name{name}, scripts.NewOwner(rand.Text(), 1)
	lease := scripts.ToMillis(min(4*n.Timeout(), n.MaxLease())) // after a crash, the lock is soon gone
	acquired := do(scripts.Acquire(scripts.AcquireArgs{Names: names, Owner: owner, Level: 1, Lease: lease, List: list, Seed: 1}))
	reply := acquired.Reply.Acquire
	if acquired.NothingDone || acquired.Err == nil && reply.Outcome != scripts.Granted {
		return reply, acquired.Err
	}
	footprint.Abandon()
	release := scripts.Release(names, owner, 0)
	renewed := acquired
	if acquired.Err == nil {
		renewed = do(scripts.Renew(list, []scripts.Renewal{{Names: names, Owner: owner, Token: reply.Token, Lease: lease}}))
	}
	if renewed.Err != nil { // the grant, or half of it, may be there
		pipe.Start(release, footprint, nil)
		return reply, renewed.Err
	}
	released := do(release)
	if released.Err == nil && (renewed.Reply.Renew[0] != scripts.Kept || released.Reply.Release.Found != 1) {
		return reply, &node.Error{Node: n.Name(), Op: "renew", Err: errors.New("the lock that was just acquired is gone")}
	}
	return reply, released.Err
}

type receiver chan pipeline.Result

func (c receiver) Done(r pipeline.Result) { c <- r }

// LockAndHear is [Lock], and also waits for the message of the release, as a waiter does.
func LockAndHear(ctx context.Context, n *node.Node, list *scripts.List, name scripts.Name) (scripts.AcquireReply, error) {
	failed := func(err error) (scripts.AcquireReply, error) {
		return scripts.AcquireReply{}, &node.Error{Node: n.Name(), Op: "subscribe", Err: redisconn.TimedOut(err, n.Timeout())}
	}
	ctx, cancel := context.WithTimeout(ctx, redisconn.ConnectTimeout(n.Timeout())+4*n.Timeout())
	defer cancel()
	c, err := redisconn.Get(ctx, inside.Of(n).Pool)
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	defer redisconn.Kill(c) // a pool must not get it back subscribed
	channel := scripts.Channel(name.String())
	if err := redisconn.Send(c, n.Timeout(), func() error { return c.Send("SUBSCRIBE", channel) }); err != nil {
		return failed(err)
	}
	if _, err := redisconn.Receive(c, n.Timeout()); err != nil {
		return failed(err)
	}
	reply, err := Lock(ctx, n, list, name)
	for isConnecting(err) && ctx.Err() == nil {
		<-time.After(n.Timeout() / 10)
		reply, err = Lock(ctx, n, list, name)
	}
	if err != nil || reply.Outcome != scripts.Granted {
		return reply, err
	}
	message, err := redis.Strings(redisconn.Receive(c, n.Timeout()))
	if err != nil || len(message) != 3 || message[1] != channel {
		return failed(fmt.Errorf("no message of the release was heard: %w", errors.Join(err, ctx.Err())))
	}
	return reply, nil
}

// isConnecting reports whether an error is of a node that may soon be up: on a long way, connecting takes longer
// than a call waits for it.
func isConnecting(err error) bool {
	var failed *node.Error
	return errors.As(err, &failed) && errors.Is(err, node.ErrDown) && !failed.Permanent()
}
