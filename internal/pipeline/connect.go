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

// owedChunk is how many releases that are owed travel together.
const owedChunk = 128

// connect makes a connection, delivers the releases that are owed, and brings the pipe up.
func (p *Pipe) connect() (*Conn, error) {
	if p.isClosed() && p.isUnused() {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
	defer cancel()
	// A Dial of the caller's pool may not heed the context: callers are let go all the same.
	overdue := time.AfterFunc(p.cfg.Timeout, func() {
		p.stopWaiting(fmt.Errorf("%w after %v", ErrTimeout, p.cfg.Timeout))
	})
	defer overdue.Stop()

	c, err := p.cfg.Connect(ctx)
	if err != nil {
		return nil, redisconn.TimedOut(err, p.cfg.Timeout)
	}
	for !p.goUp(c) {
		if err := p.payOwed(c); err != nil {
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

// goUp hands the pipe to a connection, unless a release came to be owed meanwhile: it must go out first.
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
	p.armRefusedLocked()
	return true
}

// payOwed delivers the releases that waited for the server to answer. All of them are acknowledged, or set aside, before anything new
// is asked of it, so that what is owed cannot grow from one time it is down to the next.
func (p *Pipe) payOwed(c *Conn) error {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.owed))
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.order, b.order) })
	for chunk := range slices.Chunk(all, owedChunk) {
		err := redisconn.Send(c.redis, p.cfg.Timeout, func() error {
			for _, r := range chunk {
				if err := c.send(r, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, r := range chunk {
			_, err := redisconn.Receive(c.redis, p.cfg.Timeout)
			if err != nil && (c.redis.Err() != nil || !redisconn.IsServerError(err) || redisconn.RefusesAll(err)) {
				return fmt.Errorf("releasing what was left behind: %w", err)
			}
			p.paid(r, err)
		}
	}
	return nil
}

// paid takes a release off what is owed. If the server refused it, it is set aside.
func (p *Pipe) paid(r *request, refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owed[r.claim] != r { // replaced by a later release meanwhile
		return
	}
	delete(p.owed, r.claim)
	if refused != nil && r.call.Frees() {
		p.setAsideLocked(*r, refused)
	}
}
