// Package heard tries a lock on one master as package trial does, contends for it, and hears its release.
package heard

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
	"github.com/quorumlock/quorumlock/internal/trial"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Lock is a [trial.Lock] for which another owner contends, and also waits for the message of the release, as a waiter does.
// unheard is why that did not come from a master that grants: its waiters poll. It is a *node.Error, as err.
func Lock(ctx context.Context, n *node.Node, list *scripts.List, name scripts.Name) (
	reply scripts.AcquireReply, unheard, err error,
) {
	failed := func(err error) error {
		return &node.Error{Node: n.Name(), Op: "subscribe", Err: redisconn.TimedOut(err, n.Timeout())}
	}
	ctx, cancel := context.WithTimeout(ctx, redisconn.ConnectTimeout(n.Timeout())+4*n.Timeout())
	defer cancel()
	c, err := inside.Of(n).Server.TakeConn(ctx)
	if err != nil {
		return reply, nil, failed(err)
	}
	defer c.Close()
	defer redisconn.Kill(c) // a pool must not get it back subscribed
	channel := inside.Of(n).Prefix + scripts.Channel(name.String())
	if err := redisconn.Send(c, n.Timeout(), func() error { return c.Send("SUBSCRIBE", channel) }); err != nil {
		return reply, nil, failed(err)
	}
	if _, err := redisconn.Receive(c, n.Timeout()); redisconn.IsServerError(err) {
		unheard = failed(err)
	} else if err != nil {
		return reply, nil, failed(err)
	}
	newOwner := func() scripts.Owner { return scripts.NewOwner(rand.Text(), 1) }
	contend := func(acquire scripts.AcquireArgs) error { return Contend(ctx, n, acquire, newOwner()) }
	both, err := trial.Lock(ctx, n, list, name, newOwner(), contend)
	for (isConnecting(err) || err == nil && mayBeTried(n, both.Acquire)) && ctx.Err() == nil {
		<-time.After(n.Timeout() / 10)
		both, err = trial.Lock(ctx, n, list, name, newOwner(), contend)
	}
	if reply = both.Acquire; err != nil || reply.Outcome != scripts.Granted || unheard != nil {
		return reply, unheard, err
	}
	if both.Release.Heard < 0 {
		return reply, &node.Error{Node: n.Name(), Op: "release", Err: errors.New("the user may not PUBLISH its message")}, nil
	}
	message, err := redis.Strings(redisconn.Receive(c, n.Timeout()))
	if err == nil && (len(message) != 3 || message[1] != channel) {
		err = fmt.Errorf("%w: %.40q", scripts.ErrReply, message)
	}
	if err != nil {
		unheard = failed(fmt.Errorf("no message of the release was heard: %w", errors.Join(err, ctx.Err())))
	}
	return reply, unheard, nil
}

// Contend has another owner refused what acquire has acquired, which takes further commands.
func Contend(ctx context.Context, n *node.Node, acquire scripts.AcquireArgs, other scripts.Owner) error {
	acquire.Owner = other
	pipe, footprint := inside.Of(n).Pipe(acquire.Names[0].String()), new(pipeline.Footprint)
	refused := pipe.DoAs(ctx, scripts.Acquire(acquire), footprint)
	footprint.Abandon()
	if !refused.NothingDone && (refused.Err != nil || refused.Reply.Acquire.Outcome == scripts.Granted) { // it may be granted yet
		pipe.Start(scripts.Release(acquire.Names, other, 0), footprint, nil)
	}
	return refused.Err
}

// mayBeTried reports whether a refusal may be by another trial of the name, which is soon over.
func mayBeTried(n *node.Node, r scripts.AcquireReply) bool {
	return r.Outcome == scripts.HeldByAnother && r.Wait >= 0 && r.Wait <= trial.Lease(n)
}

// isConnecting reports whether an error is of a node that may soon be up: on a long way, connecting takes longer
// than a call waits for it.
func isConnecting(err error) bool {
	var failed *node.Error
	return errors.As(err, &failed) && errors.Is(err, node.ErrDown) && !failed.Permanent()
}
