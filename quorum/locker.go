package quorum

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Locker locks names on its nodes. It is safe for concurrent use.
type Locker struct {
	embedded
	core  *core
	set   *settings
	reads *settings // the same, of readers
	bad   error     // why With refused its options; every call returns it
}

// core is what a [Locker] shares with the Lockers that [Locker.With] makes of it.
type core struct {
	*engine.Engine
	owned    bool // Open made the nodes, and Close closes them
	maxLease time.Duration

	identity  Identity // of this process
	waitlist  *queue.List
	holders   *holders.Holders
	history   waiting.History
	counters  counters
	events    events.Queue // hooks that are to run
	closeOnce sync.Once

	saidShort  atomic.Bool  // the last attempt of a waiting call failed because nodes were missing, and this was logged
	quietUntil atomic.Int64 // until this clock.Instant, nothing is logged about calls that wait for nodes

	rngMu sync.Mutex
	rng   *rand.Rand // seeds others; its source is the settings'
}

// counters are what a Locker counts for [Stats].
type counters struct {
	attempts                   [engine.Kinds]atomic.Uint64
	released, lost, writeBacks atomic.Uint64
	unannounced                atomic.Uint64
	nodes                      [quorate.MaxNodes]nodeCounters
}

// nodeCounters counts for one node.
type nodeCounters struct {
	renewals, renewalsFailed atomic.Uint64
	repairs, repairsFailed   atomic.Uint64
}

// ID returns the Locker's UUID, the first part of its owners' ids (see [Lock.Owner]). Lockers that
// [Locker.With] makes of it have the same one.
func (l *Locker) ID() string { return l.core.UUID }

// Identity returns which process the Locker belongs to, as it writes to the masters while it holds
// locks.
func (l *Locker) Identity() Identity { return l.core.identity }

// Nodes returns the names of the nodes, in the Locker's order (see [node.Node.Name]).
func (l *Locker) Nodes() []string {
	names := make([]string, len(l.core.Nodes))
	for i, n := range l.core.Nodes {
		names[i] = n.Name()
	}
	return names
}

// String names the masters, for people. The form may change.
func (l *Locker) String() string {
	return "locker over " + strings.Join(l.Nodes(), ", ")
}

// CheckNames returns the error with which [Locker.Lock] would refuse the names at once, or nil. It asks no node. The
// error wraps [ErrInvalid] for names that cannot be locked and for options that [Locker.With] refused, and
// [ErrClosed] for a closed Locker.
func (l *Locker) CheckNames(names ...string) error { return l.refuse("lock", names) }

// checkStart returns why a call for the names is refused before any node is asked, or nil.
func (l *Locker) checkStart(ctx context.Context, op string, names []string) error {
	if err := l.refuse(op, names); err != nil {
		return err
	}
	return endedError(ctx, op, names)
}

// endedError returns the error of a call whose context has ended before, or nil.
func endedError(ctx context.Context, op string, names []string) error {
	ended := engine.EndOf(ctx)
	if ended == nil {
		return nil
	}
	return &Error{Op: op, Names: slices.Clone(names), causes: append([]error{ErrNotAcquired}, ended...)}
}

// refuse returns why this Locker cannot serve the names, or nil.
func (l *Locker) refuse(op string, names []string) error {
	if err := l.unusable(op, names); err != nil {
		return err
	}
	return checkNames(op, names)
}

// unusable returns why this Locker cannot serve any names, or nil.
func (l *Locker) unusable(op string, names []string) error {
	if l.bad != nil {
		return &Error{Op: op, Names: slices.Clone(names), causes: []error{l.bad}}
	}
	if l.core.IsClosed() {
		e := &Error{Op: op, Names: slices.Clone(names), causes: []error{ErrClosed}}
		if op == "lock" || op == opTakeOver {
			e.causes = slices.Insert(e.causes, 0, ErrNotAcquired)
		}
		return e
	}
	return nil
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

// unattempted returns the error of a call of Lock that ends before its first attempt.
func (c *core) unattempted(kind engine.Kind) *Error {
	e := &Error{Op: "lock", Quorum: c.Quorum.Need, Unknown: len(c.Nodes), kind: kind, causes: []error{ErrNotAcquired}}
	if reason := sentinels[kind]; reason != nil {
		e.causes = append(e.causes, reason)
	}
	return e
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	crand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
