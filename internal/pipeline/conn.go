package pipeline

import (
	"context"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// Conn is a connection to a server that has been checked.
type Conn struct {
	RunID      string        // of the server's process
	Quarantine time.Duration // left when the connection was made
	redis      redis.Conn
	process    scripts.Process
	args       scripts.ConnArgs
	list       *scripts.List // of args.Expected
	writerDone chan struct{}
}

// NewConn returns a Conn to the process with that run id. A release bars its owner for as long as
// tombstone where a request of that owner may arrive late.
func NewConn(c redis.Conn, runID string, process scripts.Process, tombstone time.Duration) *Conn {
	return &Conn{redis: c, RunID: runID, process: process, writerDone: make(chan struct{}),
		args: scripts.ConnArgs{Process: process.String(), Tombstone: tombstone.Milliseconds()}}
}

// Call runs one call on a connection that no pipe uses, within the context's deadline, or the
// timeout where it has none.
func (c *Conn) Call(ctx context.Context, call scripts.Call, timeout time.Duration) (scripts.Reply, error) {
	r := request{call: call}
	for {
		if err := redisconn.Send(c.redis, timeout, func() error { return c.send(&r, nil) }); err != nil {
			return scripts.Reply{}, err
		}
		value, err := redisconn.ReceiveBy(ctx, c.redis, timeout)
		switch {
		case err == nil:
			return call.Parse(value)
		case r.source || !isNoScript(err):
			return scripts.Reply{}, err
		}
		r.source = true
	}
}

// send writes one request without flushing it.
func (c *Conn) send(r *request, scratch []any) error {
	if list := r.call.List(); list != nil && list != c.list {
		c.list, c.args.Expected = list, c.process.Expected(list)
	}
	args := c.args
	// Only a release after which a request of the owner may arrive late needs a tombstone. An owner
	// that lowers its level goes on holding.
	if r.claim == nil || !r.claim.MayArriveLate() || !r.call.Frees() {
		args.Tombstone = scripts.NoTombstone
	}
	command, list := r.call.Command(scratch[:0], r.source, args)
	return c.redis.Send(command, list...)
}

// close closes a connection that may have replies outstanding.
func (c *Conn) close() {
	redisconn.Kill(c.redis)
	c.redis.Close()
}

func isNoScript(err error) bool { return strings.HasPrefix(err.Error(), "NOSCRIPT") }
