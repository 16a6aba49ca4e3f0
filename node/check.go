package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// Report is the result of [Node.Check].
type Report struct {
	Name           string
	Role           string // "master"; "slave" for a replica, as Redis says
	Version        string // Redis's, or "valkey " and Valkey's
	RunID          string
	Uptime         time.Duration
	EvictionPolicy string        // maxmemory-policy; it matters when MaxMemory is not 0
	MaxMemory      uint64        // bytes, 0 for no bound
	Persistence    string        // "none", "rdb", "aof", "rdb+aof"
	MaxLease       time.Duration // the deployment's, from the server's marker; 0 when there is no marker yet
	Quarantine     time.Duration // left before the node grants
	RoundTrip      time.Duration // of one command
	Refused        error         // why Lock refuses the node (ErrReplica, ErrEvicts, ErrMaxLease, ...), or nil
	Hazards        []string      // what an operator should know, one sentence each; empty when all is well
}

// Check reports on the server over a connection of its own, within ctx and the node's timeout. It
// writes nothing. It also reports on a server that Lock refuses: see [Report]. The error is a
// [*Error].
func (n *Node) Check(ctx context.Context) (Report, error) {
	return onOwnConn(ctx, n, "check", func(ctx context.Context, c redis.Conn) (Report, error) {
		var report Report
		found, err := n.readInfo(ctx, c, "server", "replication", "memory", "persistence")
		if err != nil {
			return report, err
		}
		began := time.Now()
		if _, err := n.command(ctx, c, "PING"); err != nil {
			return report, err
		}
		report.RoundTrip = time.Since(began)
		save := n.savesRDB(ctx, c)
		database, err := n.askDatabase(ctx, c)
		if err != nil {
			return report, err
		}
		inspect := scripts.Inspect(scripts.NewName(scripts.Prefix + "check"))
		reply, err := n.server.newConn(c, found.runID, database).Call(ctx, inspect, n.Timeout())
		if err != nil {
			return report, err
		}
		maxLease, err := redis.Int64(n.command(ctx, c, "HGET", scripts.MarkerKey, scripts.MarkerMaxLease))
		if err != nil && err != redis.ErrNil {
			return report, err
		}
		report.Name, report.MaxLease = n.Name(), time.Duration(maxLease)*time.Millisecond
		isMarked := reply.Inspect.Run == scripts.MarkerRun(found.runID, database)
		report.fill(found, save, isMarked, reply.Inspect.Quarantine, n.server.opts)
		return report, nil
	})
}

// Admit ends the master's quarantine on the operator's word, and makes this client's max lease the
// deployment's.
//
// The word is: no lease can be alive that this master granted, or any master whose place it takes
// in the clients' lists. That is so when for one max lease no client has held, or requested, a lock
// there. An empty master proves nothing. Two holders are possible where the word is wrong. Admit
// refuses a server that must not be a node. The error is a [*Error].
func (n *Node) Admit(ctx context.Context) error {
	_, err := onOwnConn(ctx, n, "admit", func(ctx context.Context, c redis.Conn) (time.Duration, error) {
		found, err := n.readInfo(ctx, c, "server", "replication", "memory")
		if err != nil {
			return 0, err
		}
		if err := found.refuse(); err != nil {
			return 0, err
		}
		database, err := n.askDatabase(ctx, c)
		if err != nil {
			return 0, err
		}
		reply, err := n.server.newConn(c, found.runID, database).Call(ctx, n.server.admitCall(true), n.Timeout())
		if err != nil {
			return 0, err
		}
		return n.server.quarantineLeft(reply.Admit)
	})
	return err
}

// onOwnConn runs fn with a connection that no pipe uses, for at most the node's timeout. It does so
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
	bounded, cancel := context.WithTimeout(ctx, n.Timeout())
	done := make(chan outcome, 1)
	go func() {
		defer cancel()
		var o outcome
		c, err := n.server.takeConn(bounded)
		if err == nil {
			o.value, err = fn(bounded, c)
			if bounded.Err() != nil {
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
		return none, &Error{n.Name(), op, redisconn.TimedOut(o.err, n.Timeout())}
	}
}

func (n *Node) command(ctx context.Context, c redis.Conn, name string, args ...any) (any, error) {
	if err := redisconn.Send(c, n.Timeout(), func() error { return c.Send(name, args...) }); err != nil {
		return nil, err
	}
	return redisconn.ReceiveBy(ctx, c, n.Timeout())
}

// readInfo reads sections of INFO. Only the server section is required: the others may be
// forbidden, or missing in an emulation of Redis.
func (n *Node) readInfo(ctx context.Context, c redis.Conn, sections ...string) (info, error) {
	var found info
	for _, section := range sections {
		value, err := n.command(ctx, c, "INFO", section)
		if err != nil && (c.Err() != nil || section == "server") {
			return found, fmt.Errorf("reading INFO %s: %w", section, err)
		}
		if text, ok := value.([]byte); ok {
			found.read(string(text))
		}
	}
	return found, nil
}

func (n *Node) askDatabase(ctx context.Context, c redis.Conn) (int, error) {
	clientInfo, err := n.command(ctx, c, "CLIENT", "INFO")
	if err != nil && c.Err() != nil {
		return 0, fmt.Errorf("reading CLIENT INFO: %w", err)
	}
	return n.server.databaseIn(clientInfo), nil
}

// savesRDB reports whether the server has save points, and false where the user may not use CONFIG.
func (n *Node) savesRDB(ctx context.Context, c redis.Conn) bool {
	values, err := redis.Strings(n.command(ctx, c, "CONFIG", "GET", "save"))
	return err == nil && len(values) == 2 && values[1] != ""
}

func (r *Report) fill(f info, save, isMarked bool, quarantine time.Duration, o options) {
	r.Role, r.Version, r.RunID, r.Uptime = f.role, f.version, f.runID, f.uptime
	r.EvictionPolicy, r.MaxMemory = f.policy, f.maxMemory
	switch {
	case save && f.aof:
		r.Persistence = "rdb+aof"
	case f.aof:
		r.Persistence = "aof"
	case save:
		r.Persistence = "rdb"
	default:
		r.Persistence = "none"
	}
	hazard := func(format string, args ...any) { r.Hazards = append(r.Hazards, fmt.Sprintf(format, args...)) }

	r.Refused = f.refuse()
	if r.Refused == nil && r.MaxLease != 0 && r.MaxLease != o.maxLease {
		r.Refused = differentMaxLease(r.MaxLease, o.maxLease)
	}
	if r.Refused != nil {
		hazard("refused as a node: %v", r.Refused)
	}
	if f.role == "" {
		hazard("the server does not say whether it is a master")
	}
	if f.maxMemory > 0 && !f.evicts() {
		hazard("maxmemory is set: at that limit no lock is granted until memory is free")
	}
	if f.replicas > 0 {
		hazard("replicas are attached (%d): a replica promoted in this master's place waits in quarantine, but "+
			"a resync of this master from its own replica goes unnoticed and loses the grants that the replica lacks",
			f.replicas)
	}
	switch {
	case o.noQuarantine:
		hazard("quarantine is switched off in this client: after a restart of the master two holders are possible")
	case !isMarked:
		r.Quarantine = o.maxLease
		hazard("no client has used this server since it started, lost its data or got another database's (SWAPDB): "+
			"from the first use on it will wait in quarantine for %v", o.maxLease)
	default:
		r.Quarantine = min(quarantine, o.maxLease)
		if r.Quarantine > 0 {
			hazard("in quarantine for another %v", r.Quarantine)
		}
	}
}
