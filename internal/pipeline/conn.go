package pipeline

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// Conn is a connection to a server that has been checked.
type Conn struct {
	RunID      string          // of the server's process
	Quarantine Quarantine      // when the connection was made
	Missing    map[string]bool // the names of scripts that the server did not have
	Seal       Seal
	Selected   bool // its database was selected: it must not go back to the user's pool
	redis      redis.Conn
	process    scripts.Process
	args       scripts.ConnArgs
	list       *scripts.List                  // of args.Expected
	spelling   *scripts.Marker                // of args.Expected
	spelled    atomic.Pointer[scripts.Marker] // the marker that was shown last: names are spelled as it does; an empty one before
	writerDone chan struct{}
	marked     bool                 // the marker was found to be the process's
	resynced   bool                 // and later another one's
	left       error                // why no more requests are written; nil while they are
	came       time.Time            // when the latest reply was read, or the connection was made
	replied    bool                 // at least once, to a request
	texts      map[string]time.Time // when the latest request was queued that sent a script as text
	scratch    []any                // for the arguments of a command
	calls      []scripts.Call       // for the calls of a run
}

// NewConn returns a Conn to the process with that run id. A release bars its owner for as long as
// tombstone if a request of that owner may arrive late.
func NewConn(c redis.Conn, runID string, process scripts.Process, tombstone time.Duration) *Conn {
	conn := &Conn{redis: c, RunID: runID, process: process, writerDone: make(chan struct{}),
		Missing: map[string]bool{}, texts: map[string]time.Time{},
		args: scripts.ConnArgs{Process: process.String(), Tombstone: tombstone.Milliseconds(), Prefix: scripts.MemberPrefix(process.Member)}}
	conn.spelled.Store(&scripts.Marker{Members: scripts.NewList(), Next: scripts.NewList()})
	return conn
}

// Call runs one call on a connection that no pipe uses, within the context's deadline, or the
// timeout if it has none.
func (c *Conn) Call(ctx context.Context, call scripts.Call, timeout time.Duration) (scripts.Reply, error) {
	r := request{call: call}
	for {
		if err := redisconn.Send(c.redis, timeout, func() error { return c.send(&r) }); err != nil {
			return scripts.Reply{}, err
		}
		value, err := redisconn.ReceiveBy(ctx, c.redis, timeout)
		switch {
		case err == nil:
			reply, err := call.Parse(value)
			c.note(reply)
			return reply, err
		case r.source || !isNoScript(err):
			return scripts.Reply{}, err
		}
		r.source = true
	}
}

// send writes one request without flushing it.
func (c *Conn) send(r *request) error {
	args := c.argsOf(r.call)
	// Only a release after which a request of the owner may arrive late needs a tombstone. An owner
	// that lowers its level goes on holding.
	if r.footprint == nil || !r.footprint.MayArriveLate() || !r.call.Frees() {
		args.Tombstone = scripts.NoTombstone
	}
	return c.sendCommand(r.call.Command(c.scratch[:0], c.asText(r.call.Op(), r), args))
}

// sendRun writes requests that share a run, or a single one.
func (c *Conn) sendRun(run []request) error {
	if len(run) == 1 {
		return c.send(&run[0])
	}
	c.calls = c.calls[:0]
	source := false
	for i := range run {
		c.calls = append(c.calls, run[i].call)
		source = c.asText(run[i].call.RunOp(), &run[i]) || source
	}
	return c.sendCommand(scripts.RunCommand(c.scratch[:0], c.calls, source, c.argsOf(run[0].call)))
}

// asText reports whether a request carries its script as text: the first that needs a script which the
// server did not have when the connection was made. Of several requests whose script the server did not
// know later, the first one does, and the others follow it.
func (c *Conn) asText(script string, r *request) bool {
	text := r.source || c.Missing[script] || !r.unknown.IsZero() && r.unknown.After(c.texts[script])
	if text {
		delete(c.Missing, script)
		c.texts[script] = r.asked
	}
	return text
}

// note notes whether the marker is the process's, and how it spells names, by a reply that shows one.
func (c *Conn) note(reply scripts.Reply) {
	m, shows, isOwn := reply.ShowsMarker()
	if !shows {
		return
	}
	c.resynced, c.marked = c.resynced || c.marked && !isOwn, isOwn
	spelled := m // replies that show none allocate nothing
	c.spelled.Store(&spelled)
}

func (c *Conn) argsOf(call scripts.Call) scripts.ConnArgs {
	list, spelling := call.List(), c.spelled.Load()
	if list != nil && (list != c.list || spelling != c.spelling) {
		c.args.Expected = spelling.Expected(c.process, list)
		c.list, c.spelling = list, spelling
	}
	return c.args
}

func (c *Conn) sendCommand(name string, args []any) error {
	c.scratch = args[:0] // redigo has copied them by the next command
	return c.redis.Send(name, args...)
}

// close closes a connection that may have replies outstanding.
func (c *Conn) close() {
	redisconn.Kill(c.redis)
	c.redis.Close()
}

func isNoScript(err error) bool { return strings.HasPrefix(err.Error(), "NOSCRIPT") }
