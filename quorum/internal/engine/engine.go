package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// Config is what an Engine is made of. All fields are required.
type Config struct {
	Nodes    []*node.Node
	Quorum   quorate.Rule
	MaxLease time.Duration // of all nodes
	Clock    clock.Clock
	UUID     string           // the first part of every owner
	Identity scripts.Identity // of this process
	Founds   bool             // see roster.Options
	Exists   bool             // see roster.Options
}

// Engine is what the holds of a Locker share. It is safe for concurrent use.
type Engine struct {
	Config
	Roster   *roster.Roster
	RTT      *waiting.RTT
	Lifetime context.Context // ends with Close

	WriteBacks  atomic.Uint64 // how many nodes were asked to raise their counter to a token
	Unannounced atomic.Uint64 // releases that a node has carried out, and could not publish

	introduction *holders.Introduction
	lastOwner    atomic.Uint64
	schedule     *schedule.Schedule[*Hold] // of renewals, and of the ends of holds
	// lastRenewal is when the latest due renewal was sent: one is sent per renewalGap. The schedule's mutex
	// guards it.
	lastRenewal clock.Instant
	background  tracker
	end         context.CancelFunc // of Lifetime
}

// New returns an engine. It asks the nodes nothing. Close ends it.
func New(cfg Config) *Engine {
	e := &Engine{Config: cfg, RTT: waiting.NewRTT(len(cfg.Nodes))}
	e.Lifetime, e.end = context.WithCancel(context.Background())
	e.schedule = schedule.New(e.Clock, e.renewDue)
	e.Roster = roster.New(e.Nodes, e.Clock, roster.Options{
		Founds: cfg.Founds, Exists: cfg.Exists, NewOwner: e.newOwner, Go: e.background.start, IsClosed: e.IsClosed,
	})
	e.introduction = holders.NewIntroduction(e.Nodes, e.UUID, cfg.Identity, e.Roster.List, e.MaxLease)
	return e
}

// Close ends the contexts of all holds, and leaves their keys to their leases. It is called once.
func (e *Engine) Close() {
	e.end()
	held := e.schedule.Close()
	for _, h := range held {
		h.tell(h.lease.Orphan)
	}
	if len(held) == 0 {
		e.introduction.Leave()
	}
}

func (e *Engine) IsClosed() bool { return e.Lifetime.Err() != nil }

func (e *Engine) newOwner() scripts.Owner { return scripts.NewOwner(e.UUID, e.lastOwner.Add(1)) }

// Held returns how many holds the nodes are to keep.
func (e *Engine) Held() int { return e.schedule.Len() }

// Idle returns a channel that is closed once no request and no goroutine is under way.
func (e *Engine) Idle() <-chan struct{} { return e.background.idle() }

// Track tells [Engine.Idle] that something else is under way, and Untrack that it has ended.
func (e *Engine) Track()   { e.background.add() }
func (e *Engine) Untrack() { e.background.done() }

// Moment returns the present, for package waiting.
func (e *Engine) Moment() waiting.Moment {
	return waiting.Moment{Now: e.Clock.Now(), Step: e.RTT.Step(e.Quorum)}
}

// Pause waits for d, or until the engine is closed. It returns false if ctx ends before.
func (e *Engine) Pause(ctx context.Context, d time.Duration) bool {
	over := make(chan struct{})
	timer := e.Clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
	case <-e.Lifetime.Done():
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// pipe returns the pipeline to a node for calls with that key.
func (e *Engine) pipe(node int, key string) *pipeline.Pipe { return inside.Of(e.Nodes[node]).Pipe(key) }

// NodeError makes err a *node.Error that names the node, unless it is one. It returns nil for nil.
func (e *Engine) NodeError(node int, op string, err error) error {
	return roster.NodeError(e.Nodes[node], op, err)
}

// IsPermanent reports whether a node's error is permanent ([node.Error.Permanent]).
func IsPermanent(err error) bool {
	failed, ok := errors.AsType[*node.Error](err)
	return ok && failed.Permanent()
}

// tracker counts the goroutines and requests that are under way in the background, for
// [Engine.Idle].
type tracker struct {
	mu    sync.Mutex
	count int
	empty chan struct{} // closed when count falls to 0; nil until idle is called
}

func (t *tracker) add() {
	t.mu.Lock()
	t.count++
	t.mu.Unlock()
}

func (t *tracker) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// start runs f in a goroutine.
func (t *tracker) start(f func()) {
	t.add()
	go func() {
		defer t.done()
		f()
	}()
}

// idle returns a channel that is closed once nothing is under way.
func (t *tracker) idle() <-chan struct{} {
	t.add()
	defer t.done() // closes the channel if that was all
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	return t.empty
}
