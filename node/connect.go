package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/scripts"
)

// connect makes a connection, checks what is at its other end, keeps the marker, and delivers the releases that are owed.
func (p *pipe) connect() (*link, error) {
	if p.node.isClosed() && p.unused() {
		return nil, ErrClosed
	}
	timeout := p.node.opts.timeout
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	// A Dial of the caller's pool may not heed the context: whoever waits is let go all the same.
	overdue := time.AfterFunc(timeout, func() {
		p.giveUpWaiting(fmt.Errorf("%w after %v", ErrTimeout, timeout))
	})
	defer overdue.Stop()

	c, err := getConn(ctx, p.node.pool)
	if err != nil {
		return nil, timedOut(err, timeout)
	}
	if c.Err() == nil {
		var l *link
		if l, err = p.node.handshake(ctx, c); err == nil {
			for err == nil && !p.goUp(l) {
				err = p.payOwed(l)
			}
			if err == nil {
				p.node.log.quarantined(l.quarantine)
				return l, nil
			}
		}
	} else {
		err = c.Err()
	}
	killConn(c)
	c.Close()
	return nil, err
}

func (p *pipe) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) == 0
}

func (p *pipe) isConnecting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == connecting
}

func timedOut(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return err
}

// handshake learns who is at the other end and refuses who must not be: a replica, a server that evicts, one of another
// deployment. It loads the scripts, and keeps the marker.
func (n *Node) handshake(ctx context.Context, c redis.Conn) (*link, error) {
	all := scripts.All()
	err := writeWithin(c, n.opts.timeout, func() error {
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
		replies[i], errs[i] = receiveBy(ctx, c, n.opts.timeout)
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

	l := n.newLink(c, facts.runID, n.databaseIn(replies[3+len(all)]))
	value, err := l.do(ctx, n.admitCall(false), n.opts.timeout)
	if err != nil {
		return nil, fmt.Errorf("keeping the marker: %w", err)
	}
	l.quarantine, err = n.parseAdmission(value)
	return l, err
}

func (n *Node) newLink(c redis.Conn, runID string, database int) *link {
	return &link{
		conn: c, runID: runID, writerGone: make(chan struct{}),
		carrier: scripts.Carrier{Run: scripts.MarkerRun(runID, database), Tombstone: n.opts.maxLease.Milliseconds()},
	}
}

// do runs one call on a link that no pipe uses yet.
func (l *link) do(ctx context.Context, call scripts.Call, timeout time.Duration) (any, error) {
	r := request{call: call}
	for {
		if err := writeWithin(l.conn, timeout, func() error { return l.send(&r, nil) }); err != nil {
			return nil, err
		}
		value, err := receiveBy(ctx, l.conn, timeout)
		if err == nil || r.source || !isNoScript(err) {
			return value, err
		}
		r.source = true
	}
}

// payOwed delivers the releases that waited for the master to answer. All of them are acknowledged before anything new is
// asked of it, so that what is owed cannot grow from one time it is down to the next.
func (p *pipe) payOwed(l *link) error {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.owed))
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.turn, b.turn) })
	for chunk := range slices.Chunk(all, 128) {
		err := writeWithin(l.conn, p.node.opts.timeout, func() error {
			for _, r := range chunk {
				if err := l.send(r, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for range chunk {
			if _, err := receive(l.conn, p.node.opts.timeout); err != nil {
				return fmt.Errorf("releasing what was left behind: %w", err) // also when the server is busy or loads its data
			}
		}
		p.mu.Lock()
		for _, r := range chunk {
			if p.owed[r.claim] == r { // not replaced by a later release meanwhile
				delete(p.owed, r.claim)
			}
		}
		p.mu.Unlock()
	}
	return nil
}

func receiveBy(ctx context.Context, c redis.Conn, timeout time.Duration) (any, error) {
	left := timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	value, err := receive(c, max(left, time.Nanosecond))
	if errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("%w after %v", ErrTimeout, timeout)
	}
	return value, err
}

// admitCall keeps the marker for the process that the connection leads to.
func (n *Node) admitCall(byOperator bool) scripts.Call {
	args := scripts.AdmitArgs{MaxLease: n.opts.maxLease, Quarantine: n.opts.maxLease, ByOperator: byOperator}
	if n.opts.noQuarantine {
		args.Quarantine = 0
	}
	return scripts.Admit(args)
}

func (n *Node) parseAdmission(value any) (left time.Duration, err error) {
	reply, err := scripts.ParseAdmit(value)
	if err == nil && reply.MaxLease != 0 {
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
