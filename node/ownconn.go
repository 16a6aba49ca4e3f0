package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// onOwnConn runs fn with a connection that no pipe uses, for at most the time for connecting. It does so
// in a goroutine: a Dial of the user's pool may ignore the context.
func onOwnConn[T any](ctx context.Context, n *Node, op string,
	fn func(context.Context, redis.Conn) (T, error)) (T, error) {
	var none T
	if n.lifetime.Err() != nil {
		return none, &Error{n.Name(), op, ErrClosed}
	}
	type outcome struct {
		value T
		err   error
	}
	bound := redisconn.ConnectTimeout(n.Timeout())
	bounded, cancel := context.WithTimeout(ctx, bound)
	interruptible, stop := redisconn.Interruptible(bounded)
	done := make(chan outcome, 1)
	go func() {
		defer cancel()
		var o outcome
		c, err := n.server.takeConn(interruptible)
		if err == nil {
			o.value, err = fn(bounded, c)
			stop() // the next user of the connection has another context
			if bounded.Err() != nil || n.server.selected.Load() {
				redisconn.Kill(c)
			}
			c.Close()
		}
		o.err = err
		done <- o
	}()
	var o outcome
	select {
	case o = <-done:
	case <-bounded.Done():
		select {
		case o = <-done: // fn has ended, and that ended the context
		default:
			o.err = bounded.Err()
		}
	}
	deadline, limited := ctx.Deadline()
	switch {
	case o.err == nil:
		return o.value, nil
	case ctx.Err() != nil:
		return none, &Error{n.Name(), op, ctx.Err()}
	case limited && !time.Now().Before(deadline): // the connection has the same deadline, and timed out first
		return none, &Error{n.Name(), op, context.DeadlineExceeded}
	default:
		return none, &Error{n.Name(), op, redisconn.TimedOut(o.err, bound)}
	}
}

func (n *Node) command(ctx context.Context, c redis.Conn, name string, args ...any) (any, error) {
	bound := redisconn.ConnectTimeout(n.Timeout())
	if err := redisconn.Send(c, n.Timeout(), func() error { return c.Send(name, args...) }); err != nil {
		return nil, err
	}
	return redisconn.ReceiveBy(ctx, c, bound)
}

func (n *Node) readInfo(ctx context.Context, c redis.Conn) (found info, err error) {
	reply, err := n.command(ctx, c, "INFO")
	if err != nil {
		return found, fmt.Errorf("reading INFO: %w", err)
	}
	found.read(reply)
	return found, nil
}

func (n *Node) askDatabase(ctx context.Context, c redis.Conn) (int, error) {
	clientInfo, err := n.command(ctx, c, "CLIENT", "INFO")
	if err != nil && c.Err() != nil {
		return 0, fmt.Errorf("reading CLIENT INFO: %w", err)
	}
	return n.server.identify(ctx, c, clientInfo)
}
