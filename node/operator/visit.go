package node

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// onOwnConn runs fn with a connection that no pipe uses, for at most the time for connecting. It does so
// in a goroutine: a Dial of the user's pool may ignore the context. With an error, fn may still run.
func (n *Node) onOwnConn(ctx context.Context, op string, fn func(context.Context, redis.Conn) error) error {
	if n.lifetime.Err() != nil {
		return &Error{n.Name(), op, ErrClosed}
	}
	bound := redisconn.ConnectTimeout(n.Timeout())
	bounded, cancel := context.WithTimeout(ctx, bound)
	interruptible, stop := redisconn.Interruptible(bounded)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		c, err := n.server.takeConn(interruptible)
		if err == nil {
			err = fn(bounded, c)
			stop() // the next user of the connection has another context
			if bounded.Err() != nil || n.server.selected.Load() {
				redisconn.Kill(c)
			}
			c.Close()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-bounded.Done():
		select {
		case err = <-done: // fn has ended, and that ended the context
		default:
			err = bounded.Err()
		}
	}
	deadline, limited := ctx.Deadline()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited && !time.Now().Before(deadline): // the connection has the same deadline, and timed out first
		err = context.DeadlineExceeded
	default:
		err = redisconn.TimedOut(err, bound)
	}
	return &Error{n.Name(), op, err}
}

func (n *Node) command(ctx context.Context, c redis.Conn, name string, args ...any) (any, error) {
	bound := redisconn.ConnectTimeout(n.Timeout())
	if err := redisconn.Send(c, n.Timeout(), func() error { return c.Send(name, args...) }); err != nil {
		return nil, err
	}
	return redisconn.ReceiveBy(ctx, c, bound)
}
