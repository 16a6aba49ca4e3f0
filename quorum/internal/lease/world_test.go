package lease_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

const (
	nodes       = 4 // at most
	maxClients  = 3
	maxAttempts = 2
	owners      = maxClients * maxAttempts
	maxNames    = 3

	// A tick is longer than all margins of the code, of which the longest is the drift of 2 ms.
	tick     = time.Second
	seedStep = 8 // by how much a seed rises in a tick: more than counters rise by grants

	now = clock.Instant(1_000_000 * tick) // of all clients and masters: time passes by aging what there is
)

// clocks are how time passes.
type clocks uint8

const (
	honest clocks = iota // leases end in time
	lying                // a lease may end on a master at any time, and its holder does not notice
	still                // none ends
)

// setup is the bounds of a search.
type setup struct {
	names    [maxClients]string // the names of each client's lock, one letter each: "a" and "n" share a counter; "a" if none is said
	attempts [maxClients]uint8  // of each client: 0, 1 or 2; one each of two clients if none is said
	clock    clocks
	tokens   bool // counters are kept, as always with lying clocks; without them the states repeat, and a search covers all time
	lease    int  // in ticks, of a grant and of a renewal; 0 is 1
	maxLease int  // in ticks, of an extension and of a quarantine; at least lease
	fixed    bool // leases are never renewed
	minHold  int  // in ticks
	maxHold  int  // in ticks
	stop     int  // in ticks before the deadline, when contexts end
	deaths   uint8
	restarts uint8
	forgets  uint8
	bumps    uint8            // how often a neighbour, a name that shares the counter, may raise it on a master
	ticks    uint8            // the length of the search; 0 for no end
	probes   bool             // an attempt may ask one master first
	late     kinds            // the kinds of requests whose replies a client may read late
	depths   int              // how high a lock may be entered; 0 is 1
	extends  bool             // a holder may extend the lease to maxLease
	closes   bool             // a Locker may be closed
	twins    bool             // the first two masters are one process
	dozes    bool             // timers may be late: a lease may be found over long after its deadline
	slow     bool             // it may take a while until a client's list is submitted
	reads    [maxClients]bool // the clients that lock as readers
	lowers   bool             // a writer may be downgraded
	reloads  bool             // the script of renewals may have to be loaded: they go behind what was sent since
	timers   bool             // two leases that differ only in when the machine wants to be called are two states
	// takes: who takes over what the first client hands over at any moment, with the one ticket. The
	// others lock as usual.
	takes   [maxClients]bool
	reverts uint8              // how many masters restart with the data that they had at the handing over
	kinds   faults             // of which one happens to a master, once
	refuses fakeredis.Refusals // what a master refuses after itRefuses, until it relents
	single  bool               // one master; else three, or of weights four
	weights bool               // the first master may weigh more than others, by a mutant of the rule

	// Masters that have replicas.
	fails      uint8 // how many, from the first
	replicas   uint8 // of each, and how many the deployment wants; 0 is 1
	lag        uint8 // by how many writes a replica may be behind
	promotions uint8 // 0 is 1
	skew       int8  // by how many ticks the clocks of first replicas are ahead: 1, 0 or -1
	atOnce     bool  // a replica is promoted, the old master follows it, and all clients connect to it, in one step

	// An earlier rule, in place of the seal (see TestLagIsNotEnough).
	stops    uint8 // after how many ticks a master that lacks replicas refuses to write; 0 for a seal
	holdsOff bool  // a promoted master renews nothing for that time
	freezes  bool  // a master may stand still, and so count late
}

// complete sets what a setup does not say.
func (s *setup) complete() {
	if s.attempts == [maxClients]uint8{} {
		s.attempts = [maxClients]uint8{1, 1}
	}
	for c := range s.clients() {
		s.names[c] = cmp.Or(s.names[c], "a")
	}
	s.lease = max(s.lease, 1)
	s.maxLease = max(s.maxLease, s.lease)
	s.tokens = s.tokens || s.clock == lying
	s.replicas, s.promotions = max(s.replicas, 1), max(s.promotions, 1)
}

// faults is a set of what may happen to a master.
type faults uint16

func (f faults) has(what change) bool { return f>>what&1 == 1 }

// kinds is a set of kinds of requests.
type kinds uint16

func of(all ...lease.Do) (k kinds) {
	for _, d := range all {
		k |= 1 << d
	}
	return k
}
func (k kinds) has(d lease.Do) bool { return k&(1<<d) != 0 }

var allKinds = ^kinds(0)

func (s *setup) clients() int {
	n := 0
	for n < maxClients && s.attempts[n] > 0 {
		n++
	}
	return n
}

// masters is how many masters there are.
func (s *setup) masters() int {
	switch {
	case s.single:
		return 1
	case s.weights:
		return 4
	}
	return 3
}

// handsOver reports whether the first client may hand over its lock.
func (s *setup) handsOver() bool { return slices.Contains(s.takes[:], true) }

// ends reports whether attempts end of themselves: with lying clocks an end only makes room for the
// client's next attempt.
func (s *setup) ends(client, number int) bool {
	return s.clock != lying || number+1 < int(s.attempts[client])
}

// The numbers of what was interned. 0 is nothing, and the first state of a master or a lease.
type (
	masterID  uint32
	leaseID   uint32
	requestID uint16
	replyID   uint16
)

// answer is a reply that was given and is not read yet.
type answer struct {
	to requestID
	is replyID
}

// link is the requests from one client to one master: an ordered pipeline, and what is about it.
type link struct {
	queue   [6]requestID // not carried out
	unread  [4]answer
	late    [4]requestID // that dead connections may still deliver, in order of their numbers, once each
	submits [3]requestID // that wait for the client's list to be submitted
	mayBe   uint8        // bit by attempt: a request for a grant was on a connection that died
	at      place        // of a master that fails over
	isDown  bool
}

// state is everything at one instant. It is comparable.
type state struct {
	masters  [nodes]masterID // of twins the first one counts
	links    [nodes][maxClients]link
	leases   [owners]leaseID
	seeds    [owners]uint8
	floors   [owners][maxNames]uint8 // the highest token of the name that had been acquired when the attempt began
	acquired [maxNames][8]uint8      // the tokens of all acquisitions, one bit each
	highest  [maxNames]uint8
	writes   [maxNames][8]uint8 // the same of writers alone
	written  [maxNames]uint8
	orphaned uint8 // bit by owner: its keys are left to their leases
	broken   uint8 // the promise that was broken
	ticks    uint8
	deaths   uint8
	restarts uint8
	forgets  uint8
	bumps    uint8
	faults   uint8

	handed  bool            // the first client has handed over
	left    uint8           // how many ticks the lease that was handed over still lasts
	taken   uint8           // how often the ticket has worked
	saved   [nodes]masterID // as the masters were at the handing over, if they may revert to it
	reverts uint8

	processes [maxProcesses]process // of the masters that fail over
	promoted  uint8
}

func ownerOf(client, number int) int { return client*maxAttempts + number }

// push appends to the first free place.
func push[T comparable](all []T, x T) {
	var none T
	for i := range all {
		if all[i] == none {
			all[i] = x
			return
		}
	}
	panic("the world's pipelines are too short")
}

// shift takes away the first.
func shift[T any](all []T) (first T) {
	var none T
	first = all[0]
	copy(all, all[1:])
	all[len(all)-1] = none
	return first
}

// remove takes away the i-th.
func remove[T any](all []T, i int) { shift(all[i:]) }

// addLate puts a request among those that may arrive late.
func (l *link) addLate(r requestID) {
	for i := range l.late {
		switch {
		case l.late[i] == r:
			return
		case l.late[i] == 0 || l.late[i] > r:
			last := len(l.late) - 1
			if l.late[last] != 0 {
				panic("the world's dead connections hold too little")
			}
			copy(l.late[i+1:], l.late[i:last])
			l.late[i] = r
			return
		}
	}
	panic("the world's dead connections hold too little")
}

func (l *link) isIdle() bool {
	return l.queue[0] == 0 && l.unread[0] == answer{} && l.late[0] == 0 && l.submits[0] == 0
}
