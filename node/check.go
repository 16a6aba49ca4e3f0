package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// Report is what Check found out about a node.
type Report struct {
	Name           string
	Role           string // "master"; "slave" for a replica, as Redis says
	Version        string // of Redis, or "valkey " and its version
	RunID          string
	Uptime         time.Duration
	EvictionPolicy string        // maxmemory-policy; it matters when MaxMemory is not 0
	MaxMemory      uint64        // bytes, 0 for no bound
	Persistence    string        // "none", "rdb", "aof", "rdb+aof"
	MaxLease       time.Duration // of the deployment, as the server's marker says; 0 where there is none yet
	Quarantine     time.Duration // left before the node grants
	RoundTrip      time.Duration // of one command
	Refused        error         // why Lock would not use the node: ErrReplica, ErrEvicts, ErrMaxLease, ...; nil when it would
	Hazards        []string      // what an operator should know, one sentence each; empty when all is well
}

// Check looks at the server over a connection of its own, within ctx and the node's time-out. It writes nothing. It also
// reports on a server that Lock would refuse. The error is a *Error.
func (n *Node) Check(ctx context.Context) (Report, error) {
	return alone(ctx, n, "check", func(ctx context.Context, c redis.Conn) (Report, error) {
		var report Report
		var f info
		for _, section := range []string{"server", "replication", "memory", "persistence"} {
			value, err := n.command(ctx, c, "INFO", section)
			if err != nil && (c.Err() != nil || section == "server") {
				return report, fmt.Errorf("reading INFO %s: %w", section, err)
			}
			if text, ok := value.([]byte); ok {
				f.read(string(text))
			}
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
		reply, err := n.newConn(c, f.runID, database).Call(ctx, scripts.Inspect(scripts.NewName(scripts.Prefix+"check")), n.opts.timeout)
		if err != nil {
			return report, err
		}
		maxLease, err := redis.Int64(n.command(ctx, c, "HGET", scripts.MarkerKey, scripts.MarkerMaxLease))
		if err != nil && err != redis.ErrNil {
			return report, err
		}
		report.Name, report.MaxLease = n.Name(), time.Duration(maxLease)*time.Millisecond
		report.fill(f, save, reply.Inspect.Run == scripts.MarkerRun(f.runID, database), reply.Inspect.Quarantine, n.opts)
		return report, nil
	})
}

// Admit is the operator's word that no lease can be alive that this master granted, or any master whose place it takes in the
// clients' lists: for one max lease no client has held, or asked for, a lock there. That the master is empty proves nothing. Its
// quarantine ends, and its max lease becomes this client's. Two holders are possible where the word is wrong. The error is a *Error.
func (n *Node) Admit(ctx context.Context) error {
	_, err := alone(ctx, n, "admit", func(ctx context.Context, c redis.Conn) (time.Duration, error) {
		var f info
		for _, section := range []string{"server", "replication", "memory"} {
			value, err := n.command(ctx, c, "INFO", section)
			if err != nil && (c.Err() != nil || section == "server") {
				return 0, fmt.Errorf("reading INFO %s: %w", section, err)
			}
			text, _ := value.([]byte)
			f.read(string(text))
		}
		if err := f.refuse(); err != nil {
			return 0, err
		}
		database, err := n.askDatabase(ctx, c)
		if err != nil {
			return 0, err
		}
		reply, err := n.newConn(c, f.runID, database).Call(ctx, n.admitCall(true), n.opts.timeout)
		if err != nil {
			return 0, err
		}
		return n.quarantineLeft(reply.Admit)
	})
	return err
}

// alone runs fn with a connection that no pipe uses, for at most the node's time-out, in a goroutine of its own because a
// Dial of the caller's pool may not heed the context.
func alone[T any](ctx context.Context, n *Node, op string, fn func(context.Context, redis.Conn) (T, error)) (T, error) {
	var none T
	if n.isClosed() {
		return none, &Error{n.Name(), op, ErrClosed}
	}
	type outcome struct {
		value T
		err   error
	}
	bounded, cancel := context.WithTimeout(ctx, n.opts.timeout)
	done := make(chan outcome, 1)
	go func() {
		defer cancel()
		var o outcome
		c, err := n.takeConn(bounded)
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
		case o = <-done: // it ended, and its end is what ended the context
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
	case limited && !time.Now().Before(deadline): // the connection, which has the same deadline, was first to tell
		return none, &Error{n.Name(), op, context.DeadlineExceeded}
	default:
		return none, &Error{n.Name(), op, redisconn.TimedOut(o.err, n.opts.timeout)}
	}
}

func (n *Node) command(ctx context.Context, c redis.Conn, name string, args ...any) (any, error) {
	if err := redisconn.Send(c, n.opts.timeout, func() error { return c.Send(name, args...) }); err != nil {
		return nil, err
	}
	return redisconn.ReceiveBy(ctx, c, n.opts.timeout)
}

func (n *Node) askDatabase(ctx context.Context, c redis.Conn) (int, error) {
	clientInfo, err := n.command(ctx, c, "CLIENT", "INFO")
	if err != nil && c.Err() != nil {
		return 0, fmt.Errorf("reading CLIENT INFO: %w", err)
	}
	return n.databaseIn(clientInfo), nil
}

// savesRDB asks for the save points; where CONFIG is not allowed it cannot tell, and says no.
func (n *Node) savesRDB(ctx context.Context, c redis.Conn) bool {
	values, err := redis.Strings(n.command(ctx, c, "CONFIG", "GET", "save"))
	return err == nil && len(values) == 2 && values[1] != ""
}

func (r *Report) fill(f info, save, marked bool, quarantine time.Duration, o options) {
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
		hazard("maxmemory is set: when it is reached, no lock is granted until memory is free")
	}
	if f.replicas > 0 {
		hazard("replicas are attached (%d): one promoted in this master's place waits in quarantine, but a resync of this master "+
			"from its own replica takes back what the replica had not heard of, unnoticed", f.replicas)
	}
	switch {
	case o.noQuarantine:
		hazard("quarantine is switched off in this client: after a restart of the master two holders are possible")
	case !marked:
		r.Quarantine = o.maxLease
		hazard("no client has used this server since it started, lost its data or got another database's (SWAPDB): from the first use on it will wait in quarantine for %v", o.maxLease)
	default:
		r.Quarantine = min(quarantine, o.maxLease)
		if r.Quarantine > 0 {
			hazard("in quarantine for another %v", r.Quarantine)
		}
	}
}
