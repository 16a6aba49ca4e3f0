// Package contender is a process that contends for locks in tests with faults: it locks, reads and
// writes a fenced register, unlocks, and records events of package history. The lock is behind the
// interface Locker, so that several kinds of lock meet the same faults.
//
// A [Plan] on the first line of standard input gives the contender its task. Orders follow on the
// next lines. The end of input ends the process at once. It writes a [Report] of each action to
// standard output.
package contender

import (
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
)

// Plan is a contender's work.
type Plan struct {
	Client   int
	Kind     string // the kind of lock; the binary knows its kinds
	URLs     []string
	Names    []string // each round takes one of them
	Slots    int      // of each semaphore; 0 for locks
	Register string   // host:port of the fenced register
	Seed     uint64

	Lease, MaxLease, Timeout time.Duration // of the lock and its nodes

	Flows    int           // the number of goroutines that contend; 0 for 1
	Patience time.Duration // the timeout of one call of Lock
	Hold     time.Duration // the longest time from Lock to the write
	Rest     time.Duration // the longest time from Unlock to the next round
	Once     bool          // a call of this library's asks all masters once, and does not wait
	Careless bool          // it writes without checking its lock, as a process that is paused after its check
	Gated    bool          // each phase waits for an order; for one flow only
}

// Phases of a round, for gates.
const (
	ToLock   = "lock"
	ToWrite  = "write"
	ToUnlock = "unlock"
)

// Orders, one on each line.
const (
	Go   = "go"   // pass the gate
	Stop = "stop" // finish the round, and end in good order
)

// The values of Report.Did.
const (
	Waiting    = "waiting" // at the gate before Phase
	Acquired   = "acquired"
	Refused    = "refused"    // Lock returned an error
	Lost       = "lost"       // the lock's context ended while it was held
	Read       = "read"       // of the register
	Wrote      = "wrote"      // the register acknowledged it
	Stale      = "stale"      // the register refused the token
	Withheld   = "withheld"   // no write, because the lock was no longer held
	Released   = "released"   // Unlock returned nil
	Unreleased = "unreleased" // Unlock returned an error
	Ended      = "ended"      // in good order
	Failed     = "failed"     // the contender cannot go on
	Recorded   = "recorded"   // an event of its history
)

// Report is a line on standard output.
type Report struct {
	Did   string
	Phase string `json:",omitempty"`
	Name  string `json:",omitempty"`
	Token uint64 `json:",omitempty"`
	Err   string `json:",omitempty"`
	At    int64  // by Now
	Took  time.Duration
	Event *history.Event `json:",omitempty"`
}

// Called is when the call began that the report is of.
func (r Report) Called() int64 { return r.At - int64(r.Took) }
