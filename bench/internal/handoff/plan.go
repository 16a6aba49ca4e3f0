// Package handoff measures how long a lock that is wanted lies idle: from the call that unlocks it in one process to the moment
// somebody in another process has it.
package handoff

import "time"

// Plan is who contends for what. Each process is this program, started again.
//
// Where holding or staying away takes less time than a waiter sleeps between its attempts, others come by when the lock happens to
// be free, and take it: it is not idle for long, though those who wait are not woken. Two contenders for each lock that hold it, and
// stay away, for longer than any waiter sleeps show the waking alone: nobody else comes by, and one waits at every release.
type Plan struct {
	Contenders int // over all processes and locks
	Processes  int
	Locks      int           // contender i wants lock i mod Locks
	Hold       time.Duration // how long each holds the lock
	Away       time.Duration // how long each then stays away
	For        time.Duration
}

// Peers are the names of those that can be measured.
var Peers = []string{"quorumlock", "redsync"}

// task is what a process is told.
type task struct {
	Peer       string
	URLs       []string
	Process    int
	First      int // its first contender, of all
	Contenders int // in this process
	Locks      int
	Name       string // of the locks, before their number
	Hold, Away time.Duration
}

// start is when all begin and end, by the machine's monotonic clock.
type start struct{ From, To instant }

// account is what a process tells at the end.
type account struct {
	Process  int
	Holds    []hold
	Attempts int // at acquiring, successful ones too
	Failures []string
}

// hold is one time that a contender wanted a lock, and had it, if Acquired is not 0. Released is before the call that unlocks it,
// Acquired after the one that locks it: what is between the two of different holders is all that a user waits for.
type hold struct {
	Contender                 int
	Asked, Acquired, Released instant
}
