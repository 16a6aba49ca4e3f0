package quorum

import (
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// core is what a [Locker] shares with the Lockers that [Locker.With] makes of it.
type core struct {
	*engine.Engine
	owned    bool // Open made the nodes, and Close closes them
	maxLease time.Duration
	log      func() *slog.Logger

	identity  Identity // of this process
	holders   *holders.Holders
	history   waiting.History
	counters  counters
	events    events.Queue // hooks that are to run
	closeOnce sync.Once

	saidShort  atomic.Bool  // the last attempt of a call that waits failed because nodes were missing, and the log has said so
	quietUntil atomic.Int64 // until this clock.Instant the log says nothing about calls that wait for nodes

	rngMu sync.Mutex
	rng   *rand.Rand // seeds others; its source is the settings'
}

// counters are what a Locker counts for [Stats].
type counters struct {
	attempts                   [outcomes]atomic.Uint64
	released, lost, writeBacks atomic.Uint64
	unannounced                atomic.Uint64
	nodes                      [engine.MaxNodes]nodeCounters
}

// nodeCounters counts for one node.
type nodeCounters struct {
	renewals, renewalsFailed atomic.Uint64
	repairs, repairsFailed   atomic.Uint64
}

// newRand returns the source of jitter for one queue.
func (c *core) newRand() *rand.Rand {
	c.rngMu.Lock()
	defer c.rngMu.Unlock()
	seed := c.rng.Uint64N(1 << 62)
	return rand.New(rand.NewPCG(seed, seed))
}

// newWaitlist returns a list for the calls that wait.
func (c *core) newWaitlist() *queue.List {
	return queue.NewList(queue.Config{Engine: c.Engine, History: &c.history, NewRand: c.newRand,
		HeldError: func() error { return c.unattempted(ErrHeld) }})
}

// random returns a number from 0 to below−1.
func (c *core) random(below int) int {
	c.rngMu.Lock()
	defer c.rngMu.Unlock()
	return c.rng.IntN(below)
}

// unattempted returns the error of a call of Lock that ends before its first attempt.
func (c *core) unattempted(reason ...error) *Error {
	return &Error{Op: "lock", Need: c.Need, Unknown: len(c.Nodes), causes: append([]error{ErrNotAcquired}, reason...)}
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	crand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
