package quorum

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
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

// Identity is which process a [Locker] belongs to, self-reported. It is for people, in errors, in
// [State] and in quorumlock status: nothing is decided by it. The zero Identity is an unknown one.
type Identity struct {
	Host    string // os.Hostname
	PID     int
	Program string // the base name of os.Args[0]
	Label   string // of [WithLabel]; empty for none
}

// String returns "HOST (pid N)", after "LABEL on " if there is a label, and "unknown" for an
// unknown identity.
func (i Identity) String() string {
	if i == (Identity{}) {
		return "unknown"
	}
	text := fmt.Sprintf("%.64s (pid %d)", i.Host, i.PID)
	if i.Label != "" {
		text = fmt.Sprintf("%.64s on %s", i.Label, text)
	}
	return text
}

// thisProcess returns the identity of a Locker of this process.
func thisProcess(label string) Identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	program := ""
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return Identity{Host: host, PID: os.Getpid(), Program: program, Label: label}
}

// describeHolder is nameHolder for a call that makes one attempt: it may ask a node.
func (c *core) describeHolder(ctx context.Context, e *Error) {
	c.nameHolder(e, func(of holders.Named) scripts.Identity { return c.holders.Describe(ctx, of) })
}

// nameHolder adds to an error which process the holder is, as far as find knows: Describe, Inquire or
// Recall of package holders.
func (c *core) nameHolder(e *Error, find func(holders.Named) scripts.Identity) {
	switch {
	case e.ours:
		e.HolderIdentity, e.handedOver = c.identity, c.holders.WasHandedOver(e.Holder)
	case e.Holder != "":
		e.HolderIdentity = Identity(find(holders.Named{Owner: e.Holder, Name: e.key, Node: e.namedBy}))
	}
}
