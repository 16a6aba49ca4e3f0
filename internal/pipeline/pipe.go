package pipeline

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// New returns a pipe, which connects with its first call.
func New(c Config) *Pipe {
	p := &Pipe{cfg: c, debts: debts{of: map[*Footprint]*request{}}, rng: rand.New(c.Source)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.canWrite.L, p.canRead.L = &p.mu, &p.mu
	return p
}

// Start queues a call and returns at once. Calls are carried out in the order of their Starts. The
// footprint is the owner's; it may be nil for a call that can grant nothing, and frees nothing.
//
// On error the call was not sent and to.Done is never called. The error wraps [ErrClosed], or
// [ErrDown] while the pipe is down; a release is then kept, and sent as soon as the server
// answers again.
func (p *Pipe) Start(call scripts.Call, footprint *Footprint, to Receiver) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := request{call: call, footprint: footprint, to: to}
	if call.Frees() {
		delete(p.debts.of, footprint)
	}
	switch {
	case p.closing:
		return p.cfg.Error(call.Op(), ErrClosed)
	case p.state == down:
		p.oweLocked(r)
		return p.Down()
	case p.state == idle:
		p.state = connecting
		p.cfg.Group.Go(p.run)
	}
	if footprint != nil && call.IsAcquire() {
		footprint.asks()
	}
	if p.cfg.Timed != nil {
		r.to = p.cfg.Timed(call.Op(), to)
	}
	p.queue = append(p.queue, r)
	p.canWrite.Signal()
	return nil
}

// Do runs one call and waits for its outcome. The end of ctx ends only the waiting.
func (p *Pipe) Do(ctx context.Context, call scripts.Call) Result { return p.DoAs(ctx, call, nil) }

// DoAs is [Pipe.Do] for an owner, of that footprint.
func (p *Pipe) DoAs(ctx context.Context, call scripts.Call, footprint *Footprint) Result {
	done := make(resultChan, 1)
	if err := p.Start(call, footprint, done); err != nil {
		return Result{Err: err, NothingDone: true}
	}
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return Result{Err: p.cfg.Error(call.Op(), ctx.Err()), Sent: true}
	}
}

type resultChan chan Result

func (c resultChan) Done(r Result) { c <- r }

// Down returns the error with which Start refuses calls while the pipe is down, else nil.
func (p *Pipe) Down() error {
	if why := p.why.Load(); why != nil {
		return *why
	}
	return nil
}

// Leave ends the connection, and later ones, unless it leads to that process: the node's address leads there now. What was
// written gets its replies first; the rest goes to the next connection. With a reason why no process is to be used, the
// pipe is down until the next connection.
func (p *Pipe) Leave(unless string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process, p.left = unless, cmp.Or(why, errMoved)
	p.leaveLocked()
}

func (p *Pipe) leaveLocked() {
	if p.conn != nil && p.left != nil && p.conn.RunID != p.process {
		p.conn.left, p.conn = p.left, nil
		p.canWrite.Broadcast()
		p.canRead.Broadcast()
	}
}

// Close refuses new calls and lets the accepted ones end. Config.Group no longer starts a goroutine of the pipe.
func (p *Pipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	maps.DeleteFunc(p.debts.of, func(_ *Footprint, r *request) bool { return r.retry != nil }) // left to their keys' leases
	if p.state != up && len(p.queue) == 0 {
		p.cancel()
	}
	p.canRead.Broadcast()
}

// run keeps the pipe connected until it is closed.
func (p *Pipe) run() {
	defer p.cancel()
	var backoff redisconn.Backoff
	patience := p.cfg.Timeout
	for {
		c, err := p.connect(patience)
		for tries := 1; tries < maxResends && redisconn.IsBroken(err) && p.isConnecting(); tries++ {
			c, err = p.connect(patience)
		}
		patience = p.cfg.Timeout
		if err == nil {
			if err = p.serve(c); err == nil {
				return
			}
			if errors.Is(err, errForgotten) { // its calls have waited for as long already
				patience /= 2
			}
			if c.replied || !c.isUseless(err) {
				if !errors.Is(err, errMoved) { // a balancer may move it to and fro
					backoff.Reset()
				}
				continue
			}
		} else {
			p.goDown(err, false)
		}
		if !p.pause(backoff.Next(err, p.rng)) {
			return
		}
	}
}

// pause waits. It returns false when the node was closed.
func (p *Pipe) pause(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.cfg.Lifetime, d)
	defer cancel()
	<-ctx.Done()
	return p.cfg.Lifetime.Err() == nil
}
