package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// process is the process that a node's address leads to. All connections must lead to one: a balancer before several
// masters would let as many clients hold.
//
// So an address is dialed again before its process is used. If a connection leads to another one, and both are masters
// now, the node is refused. So it is if a connection that exists leads to another master than a new one. Then the
// address is dialed often, and used again only if all connections lead to one.
type process struct {
	leave     func(unless string, why error) // ends the connections of calls to other processes
	reconnect func()                         // ends the connection of messages

	mu sync.Mutex
	lead
}

// lead is what is known of where an address leads.
type lead struct {
	runID   string // empty while it is not known
	two     error  // it has led to two masters; nil once it leads to one
	changes int    // of the fields above
}

// How often an address is dialed again. A balancer that chooses by chance among n masters passes once in n^k times.
const (
	atFirst       = 3
	ifItIsAnother = 1
	often         = 10 // if the address has led to two masters
)

// dials returns how often to dial again before a new connection is used.
func (p lead) dials() int {
	switch {
	case p.two != nil:
		return often
	case p.runID == "":
		return atFirst
	}
	return 0
}

func (p *process) now() lead {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead
}

// moveTo has all connections lead to that process, as a new one does that was made since before. It returns false if
// another connection has found out otherwise meanwhile: this one may be to a process that has died.
func (p *process) moveTo(runID string, before lead, byMessages bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runID == runID || p.changes != before.changes {
		return p.runID == runID
	}
	p.runID, p.two = runID, nil
	p.changes++
	p.leave(runID, nil)
	if !byMessages {
		p.reconnect()
	}
	return true
}

// refuse ends all connections, because two masters have answered. It returns why.
func (p *process) refuse(one, other string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuseLocked(one, other)
	return p.two
}

func (p *process) refuseLocked(one, other string) {
	p.changes++
	p.runID, p.two = "", fmt.Errorf("%w: one address leads to two masters (run ids %.8s and %.8s): a load balancer? Or it has "+
		"moved, and the old master still runs", ErrInvalid, one, other)
	p.leave("", p.two)
	p.reconnect()
}

// left is called with a connection of calls that is left for another process's. A master that is still there is one of
// two.
func (s *server) left(ctx context.Context, c redis.Conn, runID string) error {
	if now, err := s.runIDOf(ctx, c); err != nil || now != runID {
		return nil
	}
	p := &s.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runID != "" && p.runID != runID {
		p.refuseLocked(p.runID, runID)
	}
	return p.two
}

// runIDOf returns the run id of a server that may be a node.
func (s *server) runIDOf(ctx context.Context, c redis.Conn) (string, error) {
	if err := redisconn.Send(c, s.opts.timeout, func() error { return c.Send("INFO") }); err != nil {
		return "", err
	}
	text, err := redisconn.ReceiveBy(ctx, c, redisconn.ConnectTimeout(s.opts.timeout))
	if err != nil {
		return "", fmt.Errorf("reading INFO: %w", err)
	}
	info := readInfo(text)
	return info["run_id"], refuse(info)
}

// messages makes the connections for messages, to servers that may be nodes.
type messages struct{ *server }

func (s messages) GetContext(ctx context.Context) (conn redis.Conn, err error) {
	err = s.take(ctx, true, func(c redis.Conn) (runID string, err error) {
		conn = c
		return s.runIDOf(ctx, c)
	})
	return conn, err
}

// take takes a connection from the pool that passes the check, which returns the run id of its process. The next one is
// taken after one that has become old meanwhile, or that was idle, and leads to a master that was made a replica.
func (s *server) take(ctx context.Context, forMessages bool, check func(redis.Conn) (runID string, err error)) error {
	for {
		mayBeIdle := s.pool.IdleCount() > 0
		c, err := s.TakeConn(ctx)
		if err != nil {
			return err
		}
		before := s.process.now()
		others := s.dialAgain(ctx, before.dials())
		runID, err := check(c)
		if err == nil {
			err = others.compare(ctx, c, runID, before.two)
		}
		others.end()
		if err == nil && before.runID != "" && before.runID != runID {
			err = s.OneProcess(ctx, c, runID, ifItIsAnother)
		}
		if err == nil && s.process.moveTo(runID, before, forMessages) {
			return nil
		}
		redisconn.Kill(c)
		c.Close()
		if err != nil && !(mayBeIdle && errors.Is(err, ErrReplica)) {
			return s.askedAgain(err)
		}
	}
}

// OneProcess dials the address again, so often, and returns an error if that leads to another master than a connection
// to the process of that run id.
func (s *server) OneProcess(ctx context.Context, c redis.Conn, runID string, dials int) error {
	others := s.dialAgain(ctx, dials)
	defer others.end()
	return others.compare(ctx, c, runID, nil)
}

// others are connections that are made to compare the processes at their other ends.
type others struct {
	server *server
	cancel context.CancelFunc
	asking sync.WaitGroup
	conns  []redis.Conn // nil where no master has answered
	runIDs []string
}

// dialAgain makes connections at once. A pool of the user's may have none to spare.
func (s *server) dialAgain(ctx context.Context, n int) *others {
	if most := s.pool.MaxActive; s.address == "" && most > 0 {
		n = min(n, max(0, most-s.opts.conns-1))
	}
	o := &others{server: s, conns: make([]redis.Conn, n), runIDs: make([]string, n)}
	ctx, o.cancel = context.WithCancel(ctx)
	for i := range n {
		o.asking.Go(func() { o.conns[i], o.runIDs[i] = s.dialAndAsk(ctx) })
	}
	return o
}

// dialAndAsk returns no connection if no server answers that may be a node.
func (s *server) dialAndAsk(ctx context.Context) (c redis.Conn, runID string) {
	ctx, stop := redisconn.Interruptible(ctx)
	defer stop()
	dial := s.TakeConn
	if s.address != "" {
		dial = s.pool.DialContext // an idle connection would tell nothing new
	}
	c, err := dial(ctx)
	if err != nil {
		return nil, ""
	}
	if runID, err = s.runIDOf(ctx, c); err != nil {
		redisconn.Kill(c)
		c.Close()
		return nil, ""
	}
	return c, runID
}

// compare returns an error if one of the connections leads to another master than c, to the process of that run id. Both
// must answer once more: an address that fails over leads from one to another, too. One that has led to two masters must
// answer all of them.
func (o *others) compare(ctx context.Context, c redis.Conn, runID string, two error) error {
	o.asking.Wait()
	s := o.server
	for i, other := range o.conns {
		switch {
		case other == nil && two != nil:
			return two
		case other == nil || o.runIDs[i] == runID:
			continue
		}
		now, err := s.runIDOf(ctx, c)
		if err != nil {
			return err
		}
		if now != runID {
			return fmt.Errorf("%w: one connection leads to several processes: a proxy?", ErrInvalid)
		}
		if now, err := s.runIDOf(ctx, other); err == nil && now == o.runIDs[i] {
			return s.process.refuse(runID, now)
		}
	}
	return nil
}

// end closes the connections. None stays in a pool of the user's: a network that forgets it would delay a later call.
func (o *others) end() {
	o.cancel()
	o.asking.Wait()
	for _, c := range o.conns {
		if c != nil {
			redisconn.Kill(c)
			c.Close()
		}
	}
}
