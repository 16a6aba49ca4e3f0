package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// debtsChunk is how many debts are sent before their replies are read.
const debtsChunk = 128

// connect makes a connection, pays the debts, and brings the pipe up. The queued calls wait for it for so long.
func (p *Pipe) connect(patience time.Duration) (*Conn, error) {
	if p.cfg.Lifetime.Err() != nil && p.isUnused() {
		p.cancel()
		return nil, ErrClosed
	}
	bound := redisconn.ConnectTimeout(p.cfg.Timeout)
	ctx, cancel := context.WithTimeout(p.ctx, bound)
	defer cancel()
	ctx, stop := redisconn.Interruptible(ctx)
	defer stop()
	// A pipe that is up by then stays up: it would not be connected again.
	overdue := time.AfterFunc(patience, func() {
		p.goDown(fmt.Errorf("%w after %v", ErrTimeout, p.cfg.Timeout), true)
	})
	defer overdue.Stop()

	c, err := p.cfg.Connect(ctx)
	if err != nil {
		return nil, redisconn.TimedOut(err, bound)
	}
	for owed := p.goUp(c); len(owed) > 0; owed = p.goUp(c) {
		if err := p.payDebts(ctx, c, owed); err != nil {
			c.close()
			return nil, err
		}
	}
	p.cfg.Log.Quarantined(c.Quarantine)
	return c, nil
}

func (p *Pipe) isUnused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) == 0
}

// goUp makes c the pipe's connection, unless debts are unanswered, which it returns: they must go out first.
func (p *Pipe) goUp(c *Conn) (unanswered []*request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if unanswered = p.debts.due(false); len(unanswered) > 0 {
		return unanswered
	}
	if p.state == down && p.ctx.Err() == nil { // see goDown
		p.cfg.Log.Up()
	}
	p.state, p.conn = up, c
	p.why.Store(nil)
	p.armRetriesLocked()
	p.leaveLocked()
	return nil
}

// payDebts sends the releases that are unanswered. The server acknowledges or refuses them before any new call:
// so they do not add up over several outages.
func (p *Pipe) payDebts(ctx context.Context, c *Conn, unanswered []*request) error {
	bound := redisconn.ConnectTimeout(p.cfg.Timeout)
	for chunk := range slices.Chunk(unanswered, debtsChunk) {
		err := redisconn.Send(c.redis, p.cfg.Timeout, func() error {
			for _, r := range chunk {
				_ = c.send(r) // its error is Flush's, too
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, r := range chunk {
			_, err := redisconn.ReceiveBy(ctx, c.redis, bound)
			if err != nil && (c.redis.Err() != nil || !redisconn.IsServerError(err) || redisconn.RefusesAll(err) || redisconn.NotAMaster(err)) {
				return fmt.Errorf("delivering the releases of an earlier outage: %w", err)
			}
			if err != nil && isNoScript(err) && !r.source {
				r.source = true // the next round sends it as text
				continue
			}
			p.settle(r, err)
		}
	}
	return nil
}

// settle settles a debt, unless a later release has replaced it. What the server refused is due later.
func (p *Pipe) settle(r *request, refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.debts.settle(r) && refusal != nil && r.call.Frees() {
		p.refusedLocked(*r, refusal)
	}
}
