package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// owedChunk is how many owed releases are sent before their replies are read.
const owedChunk = 128

// connect makes a connection, delivers the owed releases, and brings the pipe up.
func (p *Pipe) connect() (*Conn, error) {
	if p.cfg.Lifetime.Err() != nil && p.isUnused() {
		return nil, ErrClosed
	}
	bound := redisconn.ConnectTimeout(p.cfg.Timeout)
	ctx, cancel := context.WithTimeout(p.ctx, bound)
	defer cancel()
	ctx, stop := redisconn.Interruptible(ctx)
	defer stop()
	// The queued calls do not wait for as long.
	overdue := time.AfterFunc(p.cfg.Timeout, func() {
		p.stopWaiting(fmt.Errorf("%w after %v", ErrTimeout, p.cfg.Timeout))
	})
	defer overdue.Stop()

	c, err := p.cfg.Connect(ctx)
	if err != nil {
		return nil, redisconn.TimedOut(err, bound)
	}
	for !p.goUp(c) {
		if err := p.deliverOwed(ctx, c); err != nil {
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

// goUp makes c the pipe's connection. It returns false while releases are owed: they must go out
// first.
func (p *Pipe) goUp(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.owed) > 0 {
		return false
	}
	if p.state == down {
		p.cfg.Log.Up()
	}
	p.state, p.conn, p.why = up, c, nil
	p.armRetriesLocked()
	return true
}

// deliverOwed delivers the owed releases. The server acknowledges them, or they are set aside,
// before any new call: so the owed releases do not add up over several outages.
func (p *Pipe) deliverOwed(ctx context.Context, c *Conn) error {
	bound := redisconn.ConnectTimeout(p.cfg.Timeout)
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.owed))
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.order, b.order) })
	for chunk := range slices.Chunk(all, owedChunk) {
		err := redisconn.Send(c.redis, p.cfg.Timeout, func() error {
			for _, r := range chunk {
				if err := c.send(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, r := range chunk {
			_, err := redisconn.ReceiveBy(ctx, c.redis, bound)
			if err != nil && (c.redis.Err() != nil || !redisconn.IsServerError(err) || redisconn.RefusesAll(err)) {
				return fmt.Errorf("delivering the releases of an earlier outage: %w", err)
			}
			if err != nil && isNoScript(err) && !r.source {
				r.source = true // the next round sends it as text
				continue
			}
			p.settleOwed(r, err)
		}
	}
	return nil
}

// settleOwed removes a release from the owed ones. A release that the server refused is set aside.
func (p *Pipe) settleOwed(r *request, refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owed[r.footprint] != r { // a later release has replaced it
		return
	}
	delete(p.owed, r.footprint)
	if refusal != nil && r.call.Frees() {
		p.setAsideLocked(*r, refusal)
	}
}
