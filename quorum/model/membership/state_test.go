package membership

import "math/bits"

const (
	maxNodes   = 5
	maxLists   = 4
	maxClients = 2
	maxKnown   = 6
)

// list is a set of nodes, one bit for each.
type list uint8

// of is the list of the nodes with these numbers, counted from 1.
func of(numbers ...int) (l list) {
	for _, n := range numbers {
		l |= 1 << (n - 1)
	}
	return l
}

func (l list) has(n int) bool { return l>>n&1 == 1 }
func (l list) size() int      { return bits.OnesCount8(uint8(l)) }
func (l list) quorum() int    { return l.size()/2 + 1 }

// nodes is the list in the order of the names.
func (l list) nodes() (all []int) { return nodesOf[l] }

var nodesOf = func() (all [1 << maxNodes][]int) {
	for l := range all {
		for n := range maxNodes {
			if list(l).has(n) {
				all[l] = append(all[l], n)
			}
		}
	}
	return all
}()

// marker is what a node knows of the membership: blank, or members, next, generation, claimed.
type marker uint16

const (
	blank   marker = 0
	claimed marker = 1 << 15
)

func carry(members list, generation int, next list) marker {
	return marker(members) | marker(next)<<5 | marker(generation)<<10
}

func (m marker) members() list   { return list(m & 31) }
func (m marker) next() list      { return list(m >> 5 & 31) }
func (m marker) generation() int { return int(m >> 10 & 15) }
func (m marker) claimed() bool   { return m&claimed != 0 }
func (m marker) names(l list) bool {
	return m != blank && (m.members() == l || m.next() == l)
}
func (m marker) letsIn(l list) bool     { return m.names(l) && !m.claimed() }
func (m marker) claimedFor(l list) bool { return m.names(l) && m.claimed() }

// state is the whole state. It has no padding, so that it is hashed at once.
type state struct {
	nodes    [maxNodes]node
	lists    [maxLists]party
	clients  [maxClients]client
	ops      [2]operator
	restarts uint8
	forgets  uint8
}

type node struct {
	marker     marker
	quarantine uint8 // ticks left
	wait       uint8 // ticks left until another change is allowed
	owner      uint8 // the client that has the lock here, counted from 1
	_          uint8
}

// party is all clients of one list as far as they mark nodes: what the best informed of them knows.
type party struct {
	known    [maxKnown]marker // the markers that let the list in, in falling order
	flight   marker           // a mark that is under way
	carrier  marker           // the marker that claims copy
	fresh    [maxNodes]uint8  // for how many ticks it counts that the node let the list in
	seen     [maxNodes]sight
	flightTo uint8 // the node that the mark is under way to, counted from 1
	left     uint8 // ticks until the mark lapses
	stage    stage // of the client that claims
	sure     uint8 // ticks until what it saw counts no more
}

// client is one client of the lock. left is d_i − now, and the time to live on the node.
type client struct{ left [maxNodes]uint8 }

// operator is one run of the command. Each run can be given up, and repeated.
type operator struct {
	edge       uint8 // the change, counted from 1
	phase      phase
	index      uint8 // the member that is read or written next
	generation uint8
}

type (
	stage uint8
	sight uint8
	phase uint8
)

// Stages of a client that claims (R2).
const (
	idle stage = iota
	looking
	claiming
	confirming
)

const (
	unseen sight = iota
	seenBlank
	seenWaiting // claimed, and in quarantine
	seenClaimed
	seenIn
)

const (
	resting phase = iota
	checking
	announcing
	checkingAll
	committing
	checkingNone
	aborting
)

// change is one step from list to list.
type change struct{ from, to list }

// member is one client of the lock: the list that it knows by name, and the nodes that it reaches.
type member struct{ names, reaches list }

// setup is the bounds of a search, and the rules that it leaves out.
type setup struct {
	start    [maxNodes]marker
	lists    []list // whose clients mark nodes
	clients  [maxClients]member
	changes  []change
	maxLease uint8 // in ticks; every lease, quarantine and wait is as long
	restarts uint8 // restarts with data
	forgets  uint8 // restarts without data, and flushes
	oneByOne bool  // the command reads members one by one, else at once
	aborts   uint8 // how many times a change may be aborted
	once     list  // its clients were let in long ago, by all nodes
	pair     bool  // two runs of the command at once
	late     bool  // a mark may be under way for long
	free     bool  // claims need no look before: the first look may be as old as one likes
	off      rule
}

func (m *setup) keeps(r rule) bool { return m.off != r }
