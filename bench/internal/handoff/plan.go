// Package handoff measures how long a contended lock lies idle: from the call that unlocks it in
// one process to its acquisition in another.
package handoff

import "time"

// Plan is which contenders contend for which locks. Each process is this program, started again.
//
// If the hold or the pause is shorter than a waiter's sleep between attempts, newcomers find the
// lock free and take it: it is not idle for long, though no waiter is woken. With two contenders
// for each lock, and a hold and a pause longer than any such sleep, only the wake-up is measured:
// there is no newcomer, and one contender waits at every release.
type Plan struct {
	Contenders int // over all processes and locks
	Processes  int
	Locks      int           // contender i contends for lock i mod Locks
	Hold       time.Duration // how long a contender holds the lock
	Away       time.Duration // how long a contender then stays away
	For        time.Duration
}

// Peers are the names of the peers over masters.
var Peers = []string{"quorumlock", "redsync"}

// Etcd is the name of the peer over servers of its own.
const Etcd = "etcd"

// task is a process' orders.
type task struct {
	Peer       string
	URLs       []string
	Process    int
	First      int // the number of its first contender, of all
	Contenders int // in this process
	Locks      int
	Name       string // of the locks, before their number
	Hold, Away time.Duration
}

// start is the begin and the end for all processes, by the machine's monotonic clock.
type start struct{ From, To instant }

// account is a process' record of its run.
type account struct {
	Process  int
	Holds    []hold
	Attempts int // also the successful ones
	CPU      time.Duration
	Failures []string
}

// hold is one attempt of a contender to hold a lock. Acquired is 0 if it failed. Released is
// before the call that unlocks, Acquired after the call that locks: the time between two holders is
// all that a user waits for.
type hold struct {
	Contender                 int
	Asked, Acquired, Released instant
}
