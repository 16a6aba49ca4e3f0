// Package contender is a process that contends for locks in tests with faults: it locks, reads and writes a fenced register,
// unlocks, and records what it saw as events of package history. What it contends with is behind the interface Locker, so that
// several kinds of lock meet the same faults.
//
// It is told what to do by a Plan on the first line of its standard input, and by orders on the lines after; the end of input
// ends it at once. It tells what happens as Reports on its standard output.
package contender

import "time"

// Plan is what a contender is told to do.
type Plan struct {
	Client   int
	Kind     string // which lock; the binary knows its kinds
	URLs     []string
	Names    []string // each round takes one of them
	Register string   // host:port of the fenced register
	History  string   // the file that events are appended to
	Seed     uint64

	Lease, MaxLease, Timeout time.Duration // of the lock and its nodes

	Flows    int           // how many goroutines contend; 0 for 1
	Rounds   int           // how often each of them locks; 0 for until it is told to stop
	Patience time.Duration // bounds one call of Lock
	Hold     time.Duration // the longest time from Lock to the write
	Rest     time.Duration // the longest time from Unlock to the next round
	Careless bool          // it writes without looking whether it still holds, as a process does that is paused after it looked
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

// What a Report tells.
const (
	Waiting    = "waiting" // at the gate before Phase
	Acquired   = "acquired"
	Refused    = "refused"    // Lock returned an error
	Lost       = "lost"       // the lock's context ended while it was held
	Read       = "read"       // of the register
	Wrote      = "wrote"      // the register acknowledged it
	Stale      = "stale"      // the register refused the token
	Withheld   = "withheld"   // it did not write, since it held the lock no more
	Released   = "released"   // Unlock returned nil
	Unreleased = "unreleased" // Unlock returned an error
	Ended      = "ended"      // in good order
	Failed     = "failed"     // it cannot go on
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
}
