package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Config is what a pipe must know of the node whose calls it carries.
type Config struct {
	// Timeout is the longest that the server may go without a reply, and the longest that a connection may take.
	Timeout time.Duration
	// MaxLease is the longest lease of the deployment: how long a key can outlive what was asked for it last.
	MaxLease time.Duration
	// Connect makes a connection and checks what is at its other end. Its error is why the node is down.
	Connect func(ctx context.Context) (*Conn, error)
	// Admit is the call that keeps the node's marker, and Admitted what its reply means: the quarantine left.
	Admit    func() scripts.Call
	Admitted func(scripts.AdmitReply) (left time.Duration, err error)
	// Error makes an error that names the node and the operation.
	Error func(op string, err error) error
	// Log is told of changes. It must not block.
	Log Log
	// Closed is closed when the node is: the server is not probed any more.
	Closed <-chan struct{}
	// Source is for the jitter.
	Source rand.Source
}

// Log is told what becomes of a pipe. Its methods must not block.
type Log interface {
	Down(err error)      // the pipe is down from now on
	StillDown(err error) // it was tried in vain
	Up()                 // it is not down any more
	Quarantined(left time.Duration)
	ReleaseRefused(call scripts.Call, err error)
}

type state int

const (
	idle       state = iota // nothing was asked yet
	connecting              // requests wait in the queue
	up                      // the writer takes requests from the queue, the reader hands out the replies
	down                    // requests are refused; the server is probed
)

// Pipe is an ordered pipeline to one server over one connection at a time. See [New].
type Pipe struct {
	cfg    Config
	ctx    context.Context // ends when a connection is not wanted any more
	cancel context.CancelFunc
	ended  chan struct{} // closed when nothing runs any more
	rng    *rand.Rand    // for the run goroutine

	mu       sync.Mutex
	canWrite sync.Cond
	canRead  sync.Cond
	state    state
	closing  bool
	conn     *Conn     // when up
	why      error     // when down
	queue    []request // accepted, not written
	written  []request // written, the reply not read
	// owed holds, for each owner, the last release that the server must still hear: bounded by the owners that it had heard of
	// before it went down.
	owed      map[*Claim]*request
	lastOrder uint64
	refused   refusals
}

// requeue queues a request once more, unless its claim was abandoned. Who abandons a claim starts the release afterwards: to ask
// under the mutex keeps the two in order.
func (p *Pipe) requeue(r request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.isAbandoned() {
		return false
	}
	p.queue = append(p.queue, r)
	p.canWrite.Signal()
	return true
}

// oweLocked keeps a release for when the server answers again.
func (p *Pipe) oweLocked(r request) {
	if !r.call.IsRelease() {
		return
	}
	if r.claim == nil {
		r.claim = new(Claim)
	}
	// With its source: nobody will ask once more for a script that the server does not know.
	p.lastOrder++
	p.owed[r.claim] = &request{call: r.call, claim: r.claim, source: true, order: p.lastOrder, refusal: r.refusal}
}

// goDown fails what is queued and refuses what comes, until the pipe is up.
func (p *Pipe) goDown(err error) {
	p.mu.Lock()
	p.goDownAndUnlock(err)
}

// stopWaiting is goDown for a pipe that is still being connected. One that is up meanwhile stays so: nobody would bring it up
// again.
func (p *Pipe) stopWaiting(err error) {
	p.mu.Lock()
	if p.state != connecting {
		p.mu.Unlock()
		return
	}
	p.goDownAndUnlock(err)
}

func (p *Pipe) goDownAndUnlock(err error) {
	if p.state != down {
		p.cfg.Log.Down(err)
	} else {
		p.cfg.Log.StillDown(err)
	}
	p.state = down
	p.why = p.cfg.Error("connect", fmt.Errorf("%w: %w", ErrDown, err))
	why, failed := p.why, p.queue
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

func (p *Pipe) isClosed() bool {
	select {
	case <-p.cfg.Closed:
		return true
	default:
		return false
	}
}
