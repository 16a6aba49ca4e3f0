package operator

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// visit is a connection that no pipe uses.
type visit struct {
	node *node.Node
	raw  redis.Conn
	conn *pipeline.Conn // over raw
	info redisconn.Info
}

// grace is how long an error that the end of a context causes is awaited.
const grace = 20 * time.Millisecond

// onVisit runs fn with a connection of its own, for at most the time for connecting. It does so in a
// goroutine: a Dial of the user's pool may ignore the context. With an error, fn may still run. With refuses,
// it does not run at a server that must not be a node.
func onVisit(ctx context.Context, n *node.Node, op string, refuses bool, fn func(context.Context, visit) error) error {
	in := inside.Of(n)
	if in.Lifetime.Err() != nil {
		return &node.Error{Node: n.Name(), Op: op, Err: node.ErrClosed}
	}
	bound := redisconn.ConnectTimeout(n.Timeout())
	bounded, cancel := context.WithTimeout(ctx, bound)
	interruptible, stop := redisconn.Interruptible(bounded)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		v := visit{node: n}
		var err error
		if v.raw, err = in.Server.TakeConn(interruptible); err == nil {
			if v.info, v.conn, err = in.Server.Ask(bounded, v.raw, refuses); err == nil {
				err = fn(bounded, v)
			}
			stop() // the next user of the connection has another context
			if bounded.Err() != nil || v.conn == nil || v.conn.Selected {
				redisconn.Kill(v.raw)
			}
			v.raw.Close()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-bounded.Done():
		select {
		case err = <-done: // fn has ended, and that ended the context; or what it waited for tells more
		case <-time.After(grace):
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
	return &node.Error{Node: n.Name(), Op: op, Err: err}
}

// still returns why the address leads to two masters, or why the server is none any more: it was restarted or demoted
// meanwhile.
func (v visit) still(ctx context.Context, two error) error {
	if two == nil {
		return nil
	}
	_, _, err := inside.Of(v.node).Server.Ask(ctx, v.raw, true)
	return cmp.Or(err, two)
}

func (v visit) command(ctx context.Context, name string, args ...any) (any, error) {
	bound := redisconn.ConnectTimeout(v.node.Timeout())
	if err := redisconn.Send(v.raw, v.node.Timeout(), func() error { return v.raw.Send(name, args...) }); err != nil {
		return nil, err
	}
	return redisconn.ReceiveBy(ctx, v.raw, bound)
}

func (v visit) look(ctx context.Context) (*scripts.Seen, error) {
	return inside.Of(v.node).Server.Look(ctx, v.conn, v.node.Timeout())
}

// refusesWrites returns why the server refuses to write, or its replicas acknowledge nothing; nil if neither. It writes
// nothing: SET with XX writes only a key that is there, and no trial has this one.
func (v visit) refusesWrites(ctx context.Context) (refusal, err error) {
	trial := inside.Of(v.node).Prefix + scripts.TrialName(v.info["run_id"]).String()
	_, err = v.command(ctx, "SET", trial, "", "XX", "PX", 1)
	if err == nil {
		err = v.conn.CheckSeal(ctx, v.info, v.node.Timeout())
	}
	if redisconn.IsServerError(err) || errors.Is(err, redisconn.ErrNotReplicated) {
		return err, nil
	}
	return nil, err
}

// savePoints is what the server says of its RDB files. A user that may not use CONFIG does not
// know, and a client of a server older than Redis 7.
type savePoints struct{ known, any bool }

// mayAskSave tells whether the user may ask for save points: to ask without the right leaves an entry in ACL LOG. Before
// Redis 7 nothing tells.
const mayAskSave = "return redis.acl_check_cmd and redis.acl_check_cmd('CONFIG', 'GET', 'save') and 1 or 0"

// savePoints returns the server's save points, or nothing if the user may not use CONFIG.
func (v visit) savePoints(ctx context.Context) (save savePoints) {
	if may, err := redis.Int(v.command(ctx, "EVAL", mayAskSave, 0)); err != nil || may == 0 {
		return save
	}
	values, err := redis.Strings(v.command(ctx, "CONFIG", "GET", "save"))
	if save.known = err == nil && len(values) == 2; save.known {
		save.any = values[1] != ""
	}
	return save
}
