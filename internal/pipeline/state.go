package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/scripts"
)

// Config is what a pipe must know of its node.
type Config struct {
	// Timeout bounds the wait for the server's next reply, and a call's wait for a connection.
	Timeout time.Duration
	// MaxLease is the longest lease of the deployment: a key outlives the last request for it by no
	// more.
	MaxLease time.Duration
	// Connect makes a connection and checks the server at its other end: node's server.connect. Its error is
	// why the node is down.
	Connect func(ctx context.Context) (*Conn, error)
	// Left takes over a connection that is left for another process's. No reply to it is outstanding.
	Left func(c redis.Conn, runID string)
	// Error makes an error that names the node and the operation.
	Error func(op string, err error) error
	// Timed returns the receiver of a call's outcome that also measures it; nil for none.
	Timed func(op string, to Receiver) Receiver
	// Log receives changes of state.
	Log Log
	// Lifetime ends when the node is closed: the server is no longer probed.
	Lifetime context.Context
	// Group runs the pipe's goroutine.
	Group *sync.WaitGroup
	// Source is the source of the jitter.
	Source rand.Source
}

// Log receives a pipe's changes of state. Its methods must not block.
type Log interface {
	Down(err error)      // the pipe is down from now on
	StillDown(err error) // a probe failed
	Up()                 // the pipe is no longer down
	Quarantined(Quarantine)
	// NotAccepted is called for each reply of a server whose marker does not accept clients with that
	// list.
	NotAccepted(list *scripts.List, seen scripts.Seen)
	Left(err error) // a connection was left, because its server seems to be no longer a master
	ReleaseRefused(call scripts.Call, err error)
}

type state int

const (
	idle       state = iota // no call was started yet
	connecting              // requests wait in the queue
	up                      // the writer takes requests from the queue, the reader hands out the replies
	down                    // requests are refused; the server is probed
)

// Pipe is an ordered pipeline to one server over one connection at a time. See [New].
type Pipe struct {
	cfg    Config
	ctx    context.Context // ends when a connection is no longer wanted
	cancel context.CancelFunc
	rng    *rand.Rand            // for the run goroutine
	why    atomic.Pointer[error] // nil unless down; changes under mu

	mu       sync.Mutex
	canWrite sync.Cond
	canRead  sync.Cond
	state    state
	closing  bool
	conn     *Conn     // when up; nil once it is left
	process  string    // whose connections are not left
	left     error     // why others are; nil before the first Leave
	queue    []request // accepted, not written
	written  []request // written, not yet taken by the reader

	arranger  arranger // for the writer
	isReading bool     // the reader waits for replies to requests that it has taken

	// While the pipe is up, the server has refused each of the debts. The others are bounded by the
	// number of owners that the server knew when it went down.
	debts        debts
	retriesArmed bool // a timer has retryReleases look at which are due
}

// requeue queues requests again, together, and returns those for a grant that their owner wants no
// more. The check is made under the mutex: a caller abandons a footprint before it starts the release,
// so the request cannot follow that release.
func (p *Pipe) requeue(requests ...request) (abandoned []request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range requests {
		if r.isAbandoned() {
			abandoned = append(abandoned, r)
		} else {
			p.queue = append(p.queue, r)
		}
	}
	p.canWrite.Signal()
	return abandoned
}

// goDown fails the queued requests, and makes Start refuse new ones until the pipe is up. If an end of patience is why, it
// does so only for a pipe that is still connecting.
func (p *Pipe) goDown(err error, isOverdue bool) {
	p.mu.Lock()
	if isOverdue && p.state != connecting {
		p.mu.Unlock()
		return
	}
	switch {
	case p.ctx.Err() != nil: // closed, which says nothing of the server
	case p.state != down:
		p.cfg.Log.Down(err)
	default:
		p.cfg.Log.StillDown(err)
	}
	why := p.cfg.Error("connect", fmt.Errorf("%w: %w", ErrDown, err))
	p.state = down
	p.why.Store(&why)
	if p.closing {
		p.cancel() // no call waits for the connection now
	}
	failed := p.queue
	p.queue = nil
	for _, r := range failed {
		p.oweLocked(r)
	}
	p.mu.Unlock()
	for _, r := range failed {
		r.finish(Result{Err: why, Sent: r.resends > 0, Resent: r.resends > 0})
	}
}

func (p *Pipe) isConnecting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == connecting
}
