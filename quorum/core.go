package quorum

import (
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// core is what a [Locker] shares with the Lockers that [Locker.With] makes of it.
type core struct {
	nodes    []*node.Node
	need     int  // the quorum size
	owned    bool // Open made the nodes, and Close closes them
	clock    clock.Clock
	maxLease time.Duration
	log      func() *slog.Logger
	roster   *roster.Roster

	identity     Identity // of this process
	holders      *holders.Holders
	introduction *holders.Introduction

	uuid      string // the first part of every owner
	lastOwner atomic.Uint64
	// schedule is of renewals, and of the ends of locks. Lock order: its mu, then hold.mu, then the
	// nodes'.
	schedule *schedule.Schedule[*hold]
	// lastRenewal is when the last of the renewals that have been due is to be sent, one per
	// renewalGap. The schedule's mutex guards it.
	lastRenewal clock.Instant
	background  tracker
	rtt         *waiting.RTT
	history     waiting.History
	counters    counters
	events      events.Queue // hooks that are to run
	closeOnce   sync.Once
	closed      chan struct{}

	rngMu sync.Mutex
	rng   *rand.Rand // seeds others; its source is that of the settings

	makeRand func() *rand.Rand // newRand as a value: one allocation
}

// maxNodes bounds the nodes of a Locker: sets of nodes have a bit for each.
const maxNodes = 64

// counters are what a Locker counts for [Stats].
type counters struct {
	attempts                   [outcomes]atomic.Uint64
	released, lost, writeBacks atomic.Uint64
	unannounced                atomic.Uint64
	nodes                      [maxNodes]nodeCounters
}

// nodeCounters is the part of one node.
type nodeCounters struct {
	renewals, renewalsFailed atomic.Uint64
	repairs, repairsFailed   atomic.Uint64
}

func (c *core) newOwner() scripts.Owner {
	return scripts.NewOwner(c.uuid, c.lastOwner.Add(1))
}

// lastOwnerMade returns the last owner of an attempt.
func (c *core) lastOwnerMade() scripts.Owner { return scripts.NewOwner(c.uuid, c.lastOwner.Load()) }

// tokenSeed returns where a token counter that was lost starts again: above every token that this
// clock has seeded before.
func tokenSeed() uint64 {
	micros := time.Now().UnixMicro()
	if micros < 0 || micros >= 1<<52 {
		return 0 // a clock that is centuries off must not use up the counters
	}
	return uint64(micros)
}

// newRand returns the source of jitter for one queue.
func (c *core) newRand() *rand.Rand {
	c.rngMu.Lock()
	defer c.rngMu.Unlock()
	seed := c.rng.Uint64N(1 << 62)
	return rand.New(rand.NewPCG(seed, seed))
}

// random returns a number from 0 to below−1.
func (c *core) random(below int) int {
	c.rngMu.Lock()
	defer c.rngMu.Unlock()
	return c.rng.IntN(below)
}

// moment returns the present, for package waiting.
func (c *core) moment() waiting.Moment {
	return waiting.Moment{Now: c.clock.Now(), Step: c.rtt.Step(c.need)}
}

func (c *core) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// unattempted returns the error of a call of Lock that ends before its first attempt.
func (c *core) unattempted(reason ...error) *Error {
	return &Error{Op: "lock", Need: c.need, Unknown: len(c.nodes), causes: append([]error{ErrNotAcquired}, reason...)}
}

// nodeError makes err a *node.Error that names the node, unless it is one. It returns nil for nil.
func (c *core) nodeError(i int, op string, err error) error {
	return roster.NodeError(c.nodes[i], op, err)
}

// oneProcess is the error of a node whose process is also that of another.
func (c *core) oneProcess(node, other int) error {
	return roster.OneProcess(c.nodes[node], c.nodes[other])
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	crand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// tracker counts the goroutines and requests that are under way in the background. Close waits for
// them.
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	return t.empty
}
