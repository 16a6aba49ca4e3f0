package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = 250 * time.Millisecond

	// maxDeaths bounds how often a request goes out once more, and a broken handshake is tried again, before the master is
	// taken for dead. A connection that is refused, or a time-out, needs no second proof.
	maxDeaths = 3
)

// request is one call on its way through a pipe.
type request struct {
	call     scripts.Call
	claim    *Claim   // nil for a call that can grant nothing
	to       Receiver // nil where nobody waits
	deaths   int      // of connections on which it went out
	source   bool     // the server did not know the script by its hash
	turn     uint64   // of a release that is owed: lower ones go first
	refused  *refused // of a release that the server has refused before
	admitted bool     // it found the marker stale once, and the marker has been written since
}

// abandoned tells a request for a grant that must not go out any more.
func (r request) abandoned() bool {
	return r.call.IsAcquire() && r.claim != nil && r.claim.abandoned.Load()
}

type state int

const (
	idle       state = iota // nothing was asked of the node yet
	connecting              // requests wait in the queue
	up                      // the writer takes requests from the queue, the reader hands out the replies
	down                    // requests are refused; the node is probed
)

// pipe is an ordered pipeline to one master over one connection at a time. Callers queue, one writer flushes what has
// gathered, one reader hands out the replies in order. When the connection dies, what was under way goes out again on
// the next one, in order: every script of ours may be carried out twice. When the master does not answer in time the pipe
// is down: everything fails at once, and only releases are kept until it answers again.
type pipe struct {
	node   *Node
	ctx    context.Context // ends when a connection is not wanted any more
	cancel context.CancelFunc
	ended  chan struct{} // nothing runs any more

	mu       sync.Mutex
	canWrite sync.Cond
	canRead  sync.Cond
	state    state
	closing  bool
	link     *link     // when up
	why      *Error    // when down
	queue    []request // accepted, not written
	written  []request // written, the reply not read
	// owed holds, for each owner, the last release that the master must still hear: bounded by the owners that it had heard of
	// before it went down.
	owed     map[*Claim]*request
	lastTurn uint64
	aside    aside
	dice     *rand.Rand // for the run goroutine
}

func newPipe(n *Node) *pipe {
	p := &pipe{node: n, ended: make(chan struct{}), owed: map[*Claim]*request{}, dice: rand.New(rand.NewPCG(n.opts.random.Uint64(), n.opts.random.Uint64()))}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.canWrite.L, p.canRead.L = &p.mu, &p.mu
	return p
}

func (p *pipe) start(r request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.call.Frees() {
		p.aside.replaceBy(r.claim)
	}
	switch {
	case p.closing:
		return &Error{p.node.Name(), r.call.Op(), ErrClosed}
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

// again queues a request once more, unless its claim was abandoned. Whoever abandons a claim starts the release afterwards:
// asking under the mutex keeps the two in order.
func (p *pipe) again(r request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.abandoned() {
		return false
	}
	p.queue = append(p.queue, r)
	p.canWrite.Signal()
	return true
}

// refuses returns why a request would be refused, if so.
func (p *pipe) refuses() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == down {
		return p.why
	}
	return nil
}

func (p *pipe) oweLocked(r request) {
	if !r.call.IsRelease() {
		return
	}
	if r.claim == nil {
		r.claim = new(Claim)
	}
	// With its source: nobody will ask once more for a script that the server does not know.
	p.lastTurn++
	p.owed[r.claim] = &request{call: r.call, claim: r.claim, source: true, turn: p.lastTurn, refused: r.refused}
}

func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	p.aside.end()
	if p.state == idle {
		close(p.ended)
	}
	if p.state != up && len(p.queue) == 0 {
		p.cancel()
	}
	p.canWrite.Broadcast()
	p.canRead.Broadcast()
}

// run keeps the pipe connected until the node is closed.
func (p *pipe) run() {
	defer close(p.ended)
	defer p.cancel()
	backoff := minBackoff
	for {
		l, err := p.connect()
		for tries := 1; tries < maxDeaths && isBroken(err) && p.isConnecting(); tries++ {
			l, err = p.connect()
		}
		if err == nil {
			backoff = minBackoff
			if err = p.serve(l); err == nil {
				return
			}
			continue
		}
		p.goDown(err)
		if !p.pause(backoff/2 + time.Duration(p.dice.Int64N(int64(backoff)))) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// pause returns false when the node was closed.
func (p *pipe) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.node.closed:
	}
	select {
	case <-p.node.closed:
		return false
	default:
		return true
	}
}

// goDown fails what is queued and refuses what comes, until the pipe is up.
func (p *pipe) goDown(err error) {
	p.mu.Lock()
	p.goDownAndUnlock(err)
}

// giveUpWaiting is goDown for a pipe that is still being connected. One that is up meanwhile stays so: nobody would bring it
// up again.
func (p *pipe) giveUpWaiting(err error) {
	p.mu.Lock()
	if p.state != connecting {
		p.mu.Unlock()
		return
	}
	p.goDownAndUnlock(err)
}

func (p *pipe) goDownAndUnlock(err error) {
	if p.state != down {
		p.node.log.wentDown(err)
	} else {
		p.node.log.staysDown(err)
	}
	p.state = down
	p.why = &Error{p.node.Name(), "connect", fmt.Errorf("%w: %w", ErrDown, err)}
	why, failed := p.why, p.queue
	p.queue = nil
	for _, r := range failed {
		p.oweLocked(r)
	}
	p.mu.Unlock()
	for _, r := range failed {
		r.finish(Result{Err: why, Sent: r.deaths > 0, Twice: r.deaths > 0})
	}
}

// goUp hands the pipe to a connection, unless a release came to be owed meanwhile: it must go out first.
func (p *pipe) goUp(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.owed) > 0 {
		return false
	}
	if p.state == down {
		p.node.log.cameUp()
	}
	p.state, p.link, p.why = up, l, nil
	p.armAsideLocked()
	return true
}

// serve carries requests over a connection until it dies, then decides what becomes of those under way. It returns nil
// when the node was closed and nothing is left to do.
func (p *pipe) serve(l *link) error {
	go p.write(l)
	unread, err := p.read(l)

	p.mu.Lock()
	p.link = nil
	p.canWrite.Broadcast()
	p.mu.Unlock()
	if err != nil {
		l.kill()
	}
	<-l.writerGone
	l.conn.Close()
	if err == nil {
		return nil
	}

	p.mu.Lock()
	lost := append(unread, p.written...)
	p.written = nil
	var failed, again []request
	for _, r := range lost {
		if r.call.IsAcquire() && r.claim != nil {
			r.claim.stray.Store(true)
		}
		if errors.Is(err, ErrTimeout) || r.deaths == maxDeaths || r.abandoned() {
			p.oweLocked(r)
			failed = append(failed, r)
			continue
		}
		r.deaths++
		again = append(again, r)
	}
	p.queue = append(again, p.queue...)
	p.state = connecting
	p.mu.Unlock()

	for _, r := range failed {
		r.finish(Result{Err: &Error{p.node.Name(), r.call.Op(), err}, Sent: true, Twice: r.deaths > 0})
	}
	if errors.Is(err, ErrTimeout) {
		p.goDown(err)
	}
	return err
}

func (r request) finish(result Result) {
	if r.to != nil {
		r.to.Done(result)
	}
}
