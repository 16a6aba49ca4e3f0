package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	pool     *redis.Pool
	address  string // of the URL; empty for a pool of the user's
	database int    // of the URL; 0 for a pool of the user's
	// learned is the address that the server reports for itself, once a connection was made.
	learned atomic.Pointer[string]
}

// name returns the name given by [WithName], or else the URL's address, or else the address that
// the server reports.
func (s *server) name() string {
	if s.opts.name != "" {
		return s.opts.name
	}
	if s.address != "" {
		return s.address
	}
	if learned := s.learned.Load(); learned != nil {
		return *learned
	}
	return inside.Unnamed
}

// host returns the URL's address, or else the one that the server reports; empty while it is not
// known.
func (s *server) host() string {
	if learned := s.learned.Load(); s.address == "" && learned != nil {
		return *learned
	}
	return s.address
}

// connect takes a connection from the pool and checks the server at its other end.
func (s *server) connect(ctx context.Context) (*pipeline.Conn, error) {
	c, err := s.takeConn(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.handshake(ctx, c)
	if err != nil {
		redisconn.Kill(c)
		c.Close()
		return nil, s.askedAgain(err)
	}
	return conn, nil
}

// takeConn takes a connection from the pool.
func (s *server) takeConn(ctx context.Context) (redis.Conn, error) {
	c, err := redisconn.Get(ctx, s.pool)
	if errors.Is(err, redisconn.ErrPool) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return c, s.askedAgain(err)
}

// askedAgain marks a refusal of credentials that the next connection asks for again.
func (s *server) askedAgain(err error) error {
	if s.opts.credentials != nil && redisconn.RefusesCredentials(err) {
		return credentialsRefused{err}
	}
	return err
}

func (s *server) newConn(c redis.Conn, runID string, database int) *pipeline.Conn {
	process := scripts.Process{Run: scripts.MarkerRun(runID, database), MaxLease: s.opts.maxLease, Member: s.name()}
	return pipeline.NewConn(c, runID, process, s.opts.maxLease)
}

// handshake identifies the server and refuses one that must not be a node: a replica, a server that
// evicts, one of another deployment. It writes nothing.
func (s *server) handshake(ctx context.Context, c redis.Conn) (*pipeline.Conn, error) {
	bound := redisconn.ConnectTimeout(s.opts.timeout)
	exists := []any{"EXISTS"}
	for _, script := range scripts.All() {
		exists = append(exists, script.SHA())
	}
	err := redisconn.Send(c, s.opts.timeout, func() error {
		return errors.Join(c.Send("INFO"), c.Send("CLIENT", "INFO"), c.Send("SCRIPT", exists...))
	})
	if err != nil {
		return nil, err
	}
	text, err := redisconn.ReceiveBy(ctx, c, bound)
	if err != nil {
		return nil, fmt.Errorf("reading INFO: %w", err)
	}
	clientInfo, err := redisconn.ReceiveBy(ctx, c, bound)
	if err != nil && c.Err() != nil {
		return nil, err
	}
	known, err := redis.Ints(redisconn.ReceiveBy(ctx, c, bound)) // a server that cannot say has none
	if err != nil && c.Err() != nil {
		return nil, err
	}
	var found info
	found.read(text)
	if err := found.refuse(); err != nil {
		return nil, err
	}
	s.learnName(clientInfo)

	conn := s.newConn(c, found.runID, s.databaseIn(clientInfo))
	asked := time.Now()
	reply, err := conn.Call(ctx, scripts.Look(), bound)
	if err != nil {
		return nil, fmt.Errorf("reading the marker: %w", scriptError(err))
	}
	came := time.Now()
	conn.Missing = map[string]bool{}
	for i, script := range scripts.All() {
		conn.Missing[script.Name()] = i >= len(known) || known[i] == 0
	}
	view := membership.Read(*reply.Look, 0)
	if deployment := view.MaxLease(); deployment != 0 && deployment != s.opts.maxLease {
		return nil, membership.DifferentMaxLease(deployment, s.opts.maxLease)
	}
	left, _ := view.Quarantine()
	conn.Quarantine = pipeline.Quarantine{Left: left, Asked: asked, Came: came}
	return conn, nil
}

// learnName takes the server's address from a reply to CLIENT INFO, if the reply has it.
func (s *server) learnName(clientInfo any) {
	if address := clientInfoField(clientInfo, "laddr"); address != "" {
		s.learned.CompareAndSwap(nil, &address)
	}
}

// databaseIn takes the connection's database from a reply to CLIENT INFO. A server older than Redis
// 6.2, and one that forbids CLIENT INFO to the user, does not name it: then it is the URL's, or 0
// over a pool of the user's.
func (s *server) databaseIn(clientInfo any) int {
	digits := clientInfoField(clientInfo, "db")
	if number, err := strconv.ParseUint(digits, 10, 31); err == nil {
		return int(number)
	}
	return s.database
}

// clientInfoField returns a field of a reply to CLIENT INFO, empty when there is none.
func clientInfoField(clientInfo any, name string) string {
	text, _ := clientInfo.([]byte)
	for field := range strings.FieldsSeq(string(text)) {
		if key, value, _ := strings.Cut(field, "="); key == name {
			return value
		}
	}
	return ""
}
