package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// server is the Redis server of a node, over a pool.
type server struct {
	opts     options
	endpoint // of the URL; for a pool of the user's, the database that its name ends with
	pool     *redis.Pool
	member   string // what the master is called in lists; empty for a pool of the user's without a name
	// learned is what the server of a pool without a name reports, once a connection was made.
	learned  atomic.Pointer[place]
	selected atomic.Bool // connections of the user's pool had their database selected
	leads    leads
	hazard   func(text string) // logs it once
}

// place is a server's address, and the database of a connection to it.
type place struct {
	address  string
	database int
}

// name returns the name given by [WithName], or else the URL's address, or else the address that
// the server reports, with the number of a database other than 0 and the prefix.
func (s *server) name() string {
	if s.member != "" {
		return s.member
	}
	if learned := s.learned.Load(); learned != nil {
		return scripts.MemberName(learned.address, learned.database, s.opts.prefix)
	}
	return inside.Unnamed
}

// host returns the address that the server of a pool without a name reports, or else the URL's; empty if it is not known.
func (s *server) host() string {
	if learned := s.learned.Load(); learned != nil {
		return learned.address
	}
	return s.address
}

// connect takes a connection from the pool and checks the server at its other end.
func (s *server) connect(ctx context.Context) (conn *pipeline.Conn, err error) {
	err = s.take(ctx, func(c redis.Conn) (runID string, err error) {
		if conn, err = s.handshake(ctx, c); err != nil {
			return "", err
		}
		return conn.RunID, nil
	})
	return conn, err
}

// TakeConn takes a connection from the pool, or dials one.
func (s *server) TakeConn(ctx context.Context) (redis.Conn, error) {
	c, err := redisconn.Get(ctx, s.takeOrDial)
	return c, s.passing(err)
}

// passing marks a refusal that may pass by itself: of credentials that the next connection asks for again, and by a
// replica where the master may fail over, until the address leads to the new one.
func (s *server) passing(err error) error {
	isReplica := errors.Is(err, ErrReplica) || redisconn.NotAMaster(err)
	if s.opts.failover > 0 && isReplica || s.opts.credentials != nil && redisconn.RefusesCredentials(err) {
		return passes{err}
	}
	return err
}

// handshake identifies the server and refuses one that must not be a node: a replica, a server that
// evicts, one of another deployment. It writes nothing.
func (s *server) handshake(ctx context.Context, c redis.Conn) (*pipeline.Conn, error) {
	info, conn, err := s.Ask(ctx, c, true)
	if err != nil {
		return nil, err
	}
	asked := time.Now()
	look, err := s.Look(ctx, conn, redisconn.ConnectTimeout(s.opts.timeout))
	if err != nil {
		return nil, fmt.Errorf("reading the marker: %w", err)
	}
	came := time.Now()
	view := membership.Read(*look, 0)
	if deployment := view.MaxLease(); deployment != 0 && deployment != s.opts.maxLease {
		return nil, membership.DifferentMaxLease(deployment, s.opts.maxLease)
	}
	if err := view.DiffersInReplicas(); err != nil {
		return nil, err
	}
	if s.opts.Unsealed {
		conn.Seal = pipeline.Seal{}
	} else if err := conn.CheckSeal(ctx, info, s.opts.timeout); err != nil {
		return nil, err
	}
	if replicas := info.Number("connected_slaves"); replicas > 0 && s.opts.failover == 0 {
		s.hazard(fmt.Sprintf(membership.UnsealedReplicas, replicas))
	}
	conn.Quarantine = pipeline.Quarantine{Left: view.Quarantine(), Unmarked: !view.IsMarked(), Asked: asked, Came: came}
	return conn, nil
}

// Look reads the marker. It also finds servers that run no scripts.
func (s *server) Look(ctx context.Context, c *pipeline.Conn, timeout time.Duration) (*scripts.Seen, error) {
	reply, err := c.Call(ctx, scripts.Look(), timeout)
	if redisconn.HasCode(err, "WRONGTYPE") {
		err = fmt.Errorf("another program has written the key %s%s, delete it: %w", scripts.KeyPrefix(s.opts.prefix), scripts.MarkerKey, err)
	}
	return reply.Look, scriptError(err)
}

// Ask asks the server who it is. With refuses, it stops at a server that must not be a node. A sentinel can be
// asked nothing else.
func (s *server) Ask(ctx context.Context, c redis.Conn, refuses bool) (redisconn.Info, *pipeline.Conn, error) {
	exists := []any{"SCRIPT", "EXISTS"}
	for _, script := range scripts.All() {
		exists = append(exists, script.SHA())
	}
	replies, errs := redisconn.RoundTrip(ctx, c, s.opts.timeout, []any{"INFO"}, []any{"CLIENT", "INFO"}, exists)
	switch {
	case errs[0] != nil:
		return nil, nil, fmt.Errorf("reading INFO: %w", errs[0])
	case c.Err() != nil:
		return nil, nil, fmt.Errorf("reading CLIENT INFO: %w", cmp.Or(errs...))
	}
	known, _ := redis.Ints(replies[2], errs[2]) // a server that cannot say has none
	// All sections are asked for at once: servers before Redis 7 take only one name.
	found := redisconn.ReadInfo(replies[0])
	if err := s.Refuse(found); err != nil && (refuses || found["redis_mode"] == "sentinel") {
		return nil, nil, err
	}
	client := redisconn.ReadClientInfo(replies[1])
	database, err := s.identify(ctx, c, client)
	if err != nil {
		return nil, nil, err
	}
	seal := pipeline.Seal{Replicas: s.opts.failover, History: found["master_replid"], Prefix: scripts.KeyPrefix(s.opts.prefix), At: client["laddr"]}
	run := scripts.MarkerRun(seal.Run(found["run_id"]), database)
	process := scripts.Process{Run: run, MaxLease: s.opts.maxLease, Member: s.name()}
	conn := pipeline.NewConn(c, found["run_id"], process, s.opts.maxLease)
	conn.Seal, conn.Selected = seal, s.selected.Load()
	for i, script := range scripts.All() { // a look that is not sent as text shows whether the server runs scripts
		conn.Missing[script.Name()] = (i >= len(known) || known[i] == 0) && script.Name() != "look"
	}
	return found, conn, nil
}

// identify returns the database of a connection, by the reply to CLIENT INFO. It must be the node's: else
// the client would take another database's data for the member's. A pool without a name has the address
// and the database of its first connection.
//
// A server older than Redis 6.2, and one that forbids CLIENT INFO to the user, does not tell. A node with a
// URL has selected its database; over a pool of the user's it selects the one that its name ends with.
func (s *server) identify(ctx context.Context, c redis.Conn, clientInfo redisconn.Info) (int, error) {
	number, err := strconv.ParseUint(clientInfo["db"], 10, 31)
	isTold, want := err == nil, s.database
	if s.member == "" {
		if address := clientInfo["laddr"]; isTold && address != "" {
			s.learned.CompareAndSwap(nil, &place{address, int(number)})
		}
		learned := s.learned.Load()
		if learned == nil {
			return 0, fmt.Errorf("%w: the server does not tell its address and database: a node over a pool is then given a name, by node.WithName", ErrInvalid)
		}
		want = learned.database
	}
	switch {
	case isTold && int(number) != want:
		return 0, fmt.Errorf("%w: a connection uses database %d, and this node is database %d. All its connections must use "+
			"one, and a name over a pool ends with the number, as in node.WithName(%q)", ErrMembership, number, want,
			scripts.MemberName("a", max(int(number), want), ""))
	case isTold || s.address != "":
		return want, nil
	}
	s.selected.Store(true)
	if _, errs := redisconn.RoundTrip(ctx, c, s.opts.timeout, []any{"SELECT", want}); errs[0] != nil {
		return 0, fmt.Errorf("the server does not tell which database the connection uses (CLIENT INFO), so database %d is selected: %w", want, errs[0])
	}
	return want, nil
}
