package node

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/scripts"
)

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

// savesRDB reports whether the server has save points, and false where the user may not use CONFIG.
func (n *Node) savesRDB(ctx context.Context, c redis.Conn) bool {
	values, err := redis.Strings(n.command(ctx, c, "CONFIG", "GET", "save"))
	return err == nil && len(values) == 2 && values[1] != ""
}
