package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// leads is where the node's address leads: all connections must lead to one process. A balancer before several masters
// would let a client hold on each of them.
type leads struct {
	mu    sync.Mutex
	leave func(unless string, why error) // ends the connections to other processes
	to    string                         // the run id of the process; empty before the first connection
	from  string                         // that of the process before
	two   error                          // why the node is refused: the address led to two masters; nil once it leads to one
}

func (l *leads) now() (to string, two error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to, l.two
}

// turn has all connections lead to that process, to which a new one leads. It returns false if another one has found yet
// another process since the address led to before: this one may lead to a dead one.
func (l *leads) turn(runID, before string, two error) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.two != nil && !errors.Is(l.two, two):
		return false, l.two
	case l.to != before && l.to != runID:
		return false, nil
	case l.to != runID || l.two != nil:
		if l.to != runID {
			l.from = l.to
		}
		l.to, l.two = runID, nil
		l.leave(runID, nil)
	}
	return true, nil
}

// other returns the last process that is another one.
func (l *leads) other(runID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to != runID {
		return l.to
	}
	return l.from
}

// refuse ends all connections: two masters have answered.
func (l *leads) refuse(two error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.two = two
	l.leave("", two)
	return two
}

// takeForMessages takes a connection for messages, to a server that may be a node, and returns the run id of its process.
func (s *server) takeForMessages(ctx context.Context) (conn redis.Conn, runID string, err error) {
	err = s.take(ctx, func(c redis.Conn) (string, error) {
		info, _, err := s.Ask(ctx, c, true)
		conn, runID = c, info["run_id"]
		return runID, err
	})
	return conn, runID, err
}

// take takes a connection that passes the check, which returns the run id of its process. The next one is taken after one
// that has become old.
func (s *server) take(ctx context.Context, check func(redis.Conn) (runID string, err error)) error {
	for {
		before, two := s.leads.now()
		c, err := s.TakeConn(ctx)
		if err != nil {
			return err
		}
		more := 0
		if before == "" || two != nil { // compared for sure: the check and the dials take the same round trips
			more = dialsOfFirst
		}
		others := s.dialMore(ctx, more)
		runID, err := check(c)
		if err == nil && runID != before && more == 0 {
			others = s.dialMore(ctx, 1)
		}
		if err == nil {
			err = s.compare(ctx, c, runID, two, others)
		}
		others.end()
		if err == nil {
			var ok bool
			if ok, err = s.leads.turn(runID, before, two); ok {
				return nil
			}
		}
		kill(c)
		if err != nil {
			return s.passing(err)
		}
	}
}

// takeOrDial makes a connection as the pool does, or takes one from a user's pool with a bound, which is kept. Other idle
// ones are not taken: those of a user's may be many, and lead to where the address led before.
func (s *server) takeOrDial(ctx context.Context) (redis.Conn, error) {
	switch {
	case s.pool.MaxActive > 0:
		return s.takeFresh(ctx)
	case s.pool.DialContext != nil:
		return s.pool.DialContext(ctx)
	case s.pool.Dial != nil:
		return s.pool.Dial()
	}
	return s.pool.GetContext(ctx) // which says what is missing
}

// takeFresh takes a connection from the pool, and the next one after one that was idle, and has ended or leads to a replica.
func (s *server) takeFresh(ctx context.Context) (redis.Conn, error) {
	for {
		mayBeIdle := s.pool.IdleCount() > 0
		c, err := s.pool.GetContext(ctx)
		if err != nil || !mayBeIdle {
			return c, err
		}
		if _, err := s.ask(ctx, c); !redisconn.IsBroken(err) && !errors.Is(err, ErrReplica) {
			return c, nil
		}
		kill(c)
	}
}

const dialsOfFirst = 4

// compare refuses the node if the others lead to another master than c. If no process is known, or the address has led to
// two, there are several: a balancer that takes turns leads each of two clients that start together to one master twice.
func (s *server) compare(ctx context.Context, c redis.Conn, runID string, known error, others others) error {
	two, failed := s.differs(runID, others)
	switch {
	case two == nil && failed == nil:
		return nil
	case two == nil:
		return known
	}
	if _, err := s.ask(ctx, c); err != nil { // c leads to where the address led before it moved
		return err
	}
	return s.leads.refuse(two)
}

// others are dials of the address, at once.
type others struct {
	runIDs  []string
	errs    []error
	cancel  context.CancelFunc
	dialing *sync.WaitGroup
}

// end ends the dials that have not ended.
func (o others) end() {
	o.cancel()
	o.dialing.Wait()
}

// dialMore begins to dial the address n times. A pool of the user's may have no connection to spare.
func (s *server) dialMore(ctx context.Context, n int) others {
	if most := s.pool.MaxActive; most > 0 {
		n = max(0, min(n, most/(s.opts.conns+2)-1))
	}
	if s.opts.OneProcess {
		n = 0
	}
	ctx, cancel := context.WithTimeout(ctx, redisconn.ConnectTimeout(s.opts.timeout)/2)
	o := others{make([]string, n), make([]error, n), cancel, new(sync.WaitGroup)}
	for i := range n {
		o.dialing.Go(func() { o.runIDs[i], o.errs[i] = s.dialAndAsk(ctx) })
	}
	return o
}

// differs waits for the dials.
func (s *server) differs(runID string, of others) (two, err error) {
	of.dialing.Wait()
	for i, found := range of.runIDs {
		if of.errs[i] == nil && found != runID {
			two = s.twoMasters(runID, found)
		}
	}
	return two, cmp.Or(of.errs...)
}

// DialAgain implements [inside.Server].
func (s *server) DialAgain(ctx context.Context, runID string, n int) (two, err error) {
	others := s.dialMore(ctx, n)
	defer others.end()
	return s.differs(runID, others)
}

func (s *server) dialAndAsk(ctx context.Context) (runID string, err error) {
	c, err := s.TakeConn(ctx)
	if err != nil {
		return "", err
	}
	defer kill(c)
	return s.ask(ctx, c)
}

// ask returns the run id of a server that may be a node.
func (s *server) ask(ctx context.Context, c redis.Conn) (runID string, err error) {
	replies, errs := redisconn.RoundTrip(ctx, c, s.opts.timeout, []any{"INFO"})
	if errs[0] != nil {
		return "", errs[0]
	}
	info := redisconn.ReadInfo(replies[0])
	return info["run_id"], s.Refuse(info)
}

// left closes a connection that was left for another process's. If it still leads to a master, the address leads to two,
// also if it leads back to that one by now; but a failover may leave the old master as one for a while.
func (s *server) left(c redis.Conn, runID string) {
	defer kill(c)
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.timeout)
	defer cancel()
	_, err := s.ask(ctx, c)
	if err == nil && s.opts.failover == 0 {
		s.leads.refuse(s.twoMasters(s.leads.other(runID), runID))
	}
}

// twoMasters passes by itself where the master may fail over: the old one may be a master for a while.
func (s *server) twoMasters(one, other string) error {
	err := fmt.Errorf("%w: one address leads to two masters (run ids %.8s, %.8s): a load balancer?", ErrInvalid, min(one, other), max(one, other))
	if s.opts.failover > 0 {
		return passes{err}
	}
	return err
}
