package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// connect takes a connection from the pool and checks what is at its other end.
func (n *Node) connect(ctx context.Context) (*pipeline.Conn, error) {
	c, err := n.takeConn(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := n.handshake(ctx, c)
	if err != nil {
		redisconn.Kill(c)
		c.Close()
		return nil, err
	}
	return conn, nil
}

// takeConn takes a connection from the pool.
func (n *Node) takeConn(ctx context.Context) (redis.Conn, error) {
	c, err := redisconn.Get(ctx, n.pool)
	if errors.Is(err, redisconn.ErrPool) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return c, err
}

func (n *Node) newConn(c redis.Conn, runID string, database int) *pipeline.Conn {
	return pipeline.NewConn(c, runID, scripts.MarkerRun(runID, database), n.opts.maxLease)
}

// handshake learns who is at the other end and refuses who must not be: a replica, a server that evicts, one of another
// deployment. It loads the scripts, and keeps the marker, if the server writes anything at all.
func (n *Node) handshake(ctx context.Context, c redis.Conn) (*pipeline.Conn, error) {
	all := scripts.All()
	err := redisconn.Send(c, n.opts.timeout, func() error {
		for _, section := range []string{"server", "replication", "memory"} {
			if err := c.Send("INFO", section); err != nil {
				return err
			}
		}
		for _, s := range all {
			if err := c.Send("SCRIPT", "LOAD", s.Source()); err != nil {
				return err
			}
		}
		return c.Send("CLIENT", "INFO")
	})
	if err != nil {
		return nil, err
	}

	replies := make([]any, 3+len(all)+1)
	errs := make([]error, len(replies))
	for i := range replies {
		replies[i], errs[i] = redisconn.ReceiveBy(ctx, c, n.opts.timeout)
		if errs[i] != nil && c.Err() != nil {
			return nil, errs[i]
		}
	}
	if errs[0] != nil {
		return nil, fmt.Errorf("reading INFO server: %w", errs[0])
	}
	var facts info
	for _, reply := range replies[:3] {
		if section, ok := reply.([]byte); ok { // a stand-in for Redis may not know the later sections
			facts.read(string(section))
		}
	}
	if err := facts.refuse(); err != nil {
		return nil, err
	}
	for _, err := range errs[3 : 3+len(all)] {
		if err != nil {
			return nil, fmt.Errorf("loading the scripts: %w", err)
		}
	}
	n.learnName(replies[3+len(all)])

	conn := n.newConn(c, facts.runID, n.databaseIn(replies[3+len(all)]))
	reply, err := conn.Call(ctx, n.admitCall(false), n.opts.timeout)
	switch {
	case err == nil:
		conn.Quarantine, err = n.quarantineLeft(reply.Admit)
		return conn, err
	case redisconn.RefusesWrites(err):
		// What is held may be renewed and released without the marker. A request for a grant finds it stale, and has it written first.
		return conn, nil
	default:
		return nil, fmt.Errorf("keeping the marker: %w", err)
	}
}

// admitCall keeps the marker for the process that the connection leads to.
func (n *Node) admitCall(byOperator bool) scripts.Call {
	args := scripts.AdmitArgs{MaxLease: n.opts.maxLease, Quarantine: n.opts.maxLease, ByOperator: byOperator}
	if n.opts.noQuarantine {
		args.Quarantine = 0
	}
	return scripts.Admit(args)
}

// quarantineLeft reads the reply to admitCall.
func (n *Node) quarantineLeft(reply scripts.AdmitReply) (left time.Duration, err error) {
	if reply.MaxLease != 0 {
		err = differentMaxLease(reply.MaxLease, n.opts.maxLease)
	}
	return reply.Left, err
}

func differentMaxLease(deployment, client time.Duration) error {
	return fmt.Errorf("%w: the deployment's is %v, this client's %v", ErrMaxLease, deployment, client)
}

// learnName takes the name of a node over a pool from CLIENT INFO, where the server knows it.
func (n *Node) learnName(clientInfo any) {
	text, _ := clientInfo.([]byte)
	for field := range strings.FieldsSeq(string(text)) {
		if address, ok := strings.CutPrefix(field, "laddr="); ok && *n.name.Load() == "" {
			n.name.Store(&address)
		}
	}
}

// databaseIn takes the number of a connection's database from CLIENT INFO. Where the server does not tell, because it is older than
// Redis 6.2 or the user may not ask, it is the URL's, and 0 over a pool.
func (n *Node) databaseIn(clientInfo any) int {
	database := n.database
	text, _ := clientInfo.([]byte)
	for field := range strings.FieldsSeq(string(text)) {
		if digits, ok := strings.CutPrefix(field, "db="); ok {
			if number, err := strconv.ParseUint(digits, 10, 31); err == nil {
				database = int(number)
			}
		}
	}
	return database
}

func (n *Node) isClosed() bool {
	select {
	case <-n.closed:
		return true
	default:
		return false
	}
}
