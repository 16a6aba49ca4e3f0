package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// Seal says when the calls of a connection count, to a server whose replicas may take its place. The server cannot say
// whether one has: nothing tells it, and it may have stood still. So all of its replicas must have acknowledged the
// calls: one that was promoted acknowledges nothing to its former master. The zero value is for a server without replicas.
type Seal struct {
	Replicas int    // how many the server has: all of the processes that may take its place
	History  string // the server's replication id when the connection was made: a promotion makes a new one
	Prefix   string // of keys and channels
	At       string // the server's address, for errors; empty if it does not tell
}

// errAnotherReign ends a connection: what was asked over it may be lost.
var errAnotherReign = errors.New("the server was a replica since the connection was made")

// Covers reports whether a call needs the seal: a release counts as it is.
func (s Seal) Covers(call scripts.Call) bool { return s.Replicas > 0 && !call.IsRelease() }

// sealChannel is where a seal publishes.
const sealChannel = scripts.Prefix + "seal"

// Commands returns the seal of the calls that were sent before: a message for the replicas, the wait for them, and the
// question what the server is now. Without the message, calls that happened to write nothing would count by old
// acknowledgments. Unlike a key, it needs no memory.
func (s Seal) Commands(wait time.Duration) [][]any {
	return [][]any{{"PUBLISH", s.Prefix + sealChannel, ""}, {"WAIT", s.Replicas, wait.Milliseconds()}, {"INFO", "replication"}}
}

// Broken returns why calls do not count that were carried out before so many replicas acknowledged them, and before the
// server said that; nil if they do. They may still have been carried out.
func (s Seal) Broken(acknowledged int, now redisconn.Info) error {
	attached, twice := int(now.Number("connected_slaves")), now.TwoReplicasAt()
	switch {
	case now["role"] != "master" || now["master_replid"] != s.History:
		return errAnotherReign
	case attached != s.Replicas:
		return s.lacks("the server has %s, and the deployment wants %d", plain.Count(attached, "replica"), s.Replicas)
	case twice != "": // one replica, whose former link has not ended
		return s.lacks("two replicas are at %s, or one has two links", twice)
	case acknowledged < s.Replicas:
		return s.lacks("%d of %s acknowledged in time", acknowledged, plain.Count(s.Replicas, "replica"))
	}
	return nil
}

func (s Seal) lacks(format string, args ...any) error {
	at := ""
	if s.At != "" {
		at = " at " + s.At
	}
	return fmt.Errorf("%w%s: %s", redisconn.ErrNotReplicated, at, fmt.Sprintf(format, args...))
}

// Run returns what stands for the server in its marker, in place of its run id: a process that becomes a master again
// may have other data.
func (s Seal) Run(runID string) string {
	if s.Replicas == 0 {
		return runID
	}
	return fmt.Sprintf("%s.%s.%d", runID, s.History, s.Replicas)
}

// sendSeal writes the seal of what was written before. Its WAIT ends before the timeout of its reply.
func (c *Conn) sendSeal(timeout time.Duration) error {
	for _, command := range c.Seal.Commands(max(timeout*3/4, time.Millisecond)) {
		if err := c.redis.Send(command[0].(string), command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// readSeal reads the replies to a seal. Its error is why what was written before does not count.
func (c *Conn) readSeal(receive func() (any, error)) error {
	var replies [3]any // of PUBLISH, WAIT and INFO
	var refusal error
	for i := range replies {
		reply, err := receive()
		if c.came = time.Now(); err != nil && c.redis.Err() != nil {
			return err
		}
		replies[i], refusal = reply, cmp.Or(refusal, err)
	}
	acknowledged, _ := redis.Int(replies[1], nil)
	err := c.Seal.Broken(acknowledged, redisconn.ReadInfo(replies[2]))
	if refusal != nil && !errors.Is(err, errAnotherReign) {
		return fmt.Errorf("asking for acknowledgments of the replicas: %w", refusal)
	}
	return err
}

// CheckSeal returns why no call over a connection that no pipe uses would count, to a server that has said this; nil if
// one would.
func (c *Conn) CheckSeal(ctx context.Context, info redisconn.Info, timeout time.Duration) error {
	if c.Seal.Replicas == 0 {
		return nil
	}
	if err := c.Seal.Broken(c.Seal.Replicas, info); err != nil { // a WAIT for what is not there takes as long as it may
		return err
	}
	if err := redisconn.Send(c.redis, timeout, func() error { return c.sendSeal(timeout) }); err != nil {
		return err
	}
	err := c.readSeal(func() (any, error) { return redisconn.ReceiveBy(ctx, c.redis, redisconn.ConnectTimeout(timeout)) })
	c.replied = err == nil // only a master does
	return err
}

// unsealed is the reply to requests that shared a run, or to one, which counts with the seal.
type unsealed struct {
	run   []request
	value any
}
