// Package pipeline carries the calls of many callers to one server, in order, over one connection at a time.
//
// Callers queue. One writer flushes what has gathered, one reader parses the replies and hands them out in order. When the connection
// dies, what was under way goes out again on the next one, in order: every script may be carried out twice. When the server does not
// answer in time the pipe is down: everything fails at once, and only releases are kept until the server answers again.
//
// The files, each using only those above it: result.go, state.go, refused.go, conn.go, serve.go, connect.go, pipe.go.
package pipeline

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// New returns a pipe. It connects when it is asked for something first.
func New(c Config) *Pipe {
	p := &Pipe{cfg: c, ended: make(chan struct{}), owed: map[*Claim]*request{}, rng: rand.New(c.Source)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.canWrite.L, p.canRead.L = &p.mu, &p.mu
	return p
}

// Start puts a call into the pipe and returns at once. Calls are carried out in the order of their Starts. The claim is the owner's,
// nil for calls that can grant nothing. On error the call was not sent and to.Done is never called; a release that was refused so
// because the pipe is down is kept, and goes out as soon as the server answers again.
func (p *Pipe) Start(call scripts.Call, claim *Claim, to Receiver) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := request{call: call, claim: claim, to: to}
	if call.Frees() {
		p.refused.replace(claim)
	}
	switch {
	case p.closing:
		return p.cfg.Error(call.Op(), ErrClosed)
	case p.state == down:
		p.oweLocked(r)
		return p.why
	case p.state == idle:
		p.state = connecting
		go p.run()
	}
	p.queue = append(p.queue, r)
	p.canWrite.Signal()
	return nil
}

// Do runs one call and waits for it, or for ctx, which ends only the waiting.
func (p *Pipe) Do(ctx context.Context, call scripts.Call) Result {
	w := waiter{done: make(chan Result, 1)}
	if err := p.Start(call, nil, w); err != nil {
		return Result{Err: err}
	}
	select {
	case r := <-w.done:
		return r
	case <-ctx.Done():
		return Result{Err: p.cfg.Error(call.Op(), ctx.Err()), Sent: true}
	}
}

type waiter struct{ done chan Result }

func (w waiter) Done(r Result) { w.done <- r }

// Down returns why calls are refused now, nil while they are not.
func (p *Pipe) Down() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == down {
		return p.why
	}
	return nil
}

// Close lets what is under way end. The channel that it returns is closed when nothing runs any more.
func (p *Pipe) Close() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	p.refused.end()
	if p.state == idle {
		close(p.ended)
	}
	if p.state != up && len(p.queue) == 0 {
		p.cancel()
	}
	p.canWrite.Broadcast()
	p.canRead.Broadcast()
	return p.ended
}

// run keeps the pipe connected until it is closed.
func (p *Pipe) run() {
	defer close(p.ended)
	defer p.cancel()
	backoff := minBackoff
	for {
		c, err := p.connect()
		for tries := 1; tries < maxResends && redisconn.IsBroken(err) && p.isConnecting(); tries++ {
			c, err = p.connect()
		}
		if err == nil {
			backoff = minBackoff
			if err = p.serve(c); err == nil {
				return
			}
			continue
		}
		p.goDown(err)
		if !p.pause(backoff/2 + time.Duration(p.rng.Int64N(int64(backoff)))) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// pause returns false when the node was closed.
func (p *Pipe) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.cfg.Closed:
	}
	return !p.isClosed()
}
