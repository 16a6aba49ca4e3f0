package model

const (
	nodes       = 3
	need        = 2
	maxClients  = 3
	maxAttempts = 2
	owners      = maxClients * maxAttempts

	noMarker = 15 // the quarantine of a node that forgot, until a client notices
	seedStep = 8  // by how much a seed rises in a tick: more than counters rise by grants
)

// setup is the bounds of a search, and the one rule that it leaves out.
type setup struct {
	attempts [maxClients]uint8 // of each client: 0, 1 or 2
	honest   bool              // a lease ends in time; else it may end on a node at any time, unnoticed
	tokens   bool              // counters are kept; without them the states repeat, and a search covers all time
	lease    uint8             // in ticks, of a grant and of a renewal
	maxLease uint8             // the longest lease of an extension, and the length of a quarantine
	fixed    bool              // leases are never renewed
	deaths   uint8             // how many connections may die
	restarts uint8             // how many times a node may restart with its data
	forgets  uint8             // how many times it may restart without its data
	bumps    uint8             // how often a neighbour, a name that shares the counter, may raise it on a node
	ticks    uint8             // the length of the search; 0 for no end
	waves    bool              // an attempt may leave out a node at first, and ask it later or never
	late     kinds             // the kinds of requests whose replies a client may read late
	off      rule
}

func (m *setup) keeps(r rule) bool { return m.off != r }

func (m *setup) clients() uint8 {
	n := uint8(0)
	for n < maxClients && m.attempts[n] > 0 {
		n++
	}
	return n
}

// owner is an attempt of a client, counted from 1; 0 for none.
type owner uint8

func ownerOf(client, attempt uint8) owner { return owner(client*maxAttempts+attempt) + 1 }
func (o owner) client() uint8             { return uint8(o-1) / maxAttempts }
func (o owner) number() uint8             { return uint8(o-1) % maxAttempts }

// state is the whole state. It consists of bytes only, so that it is compared and hashed at once.
type state struct {
	nodes [nodes]node
	world
}

// world is the state that belongs to no one node.
type world struct {
	attempts [owners]attempt
	acquired [8]uint8 // the tokens of all acquisitions so far, one bit each
	highest  uint8    // the highest of these tokens
	repeated uint8    // 1 when a token was not greater than it had to be
	ticks    uint8
	deaths   uint8
	restarts uint8
	forgets  uint8
	bumps    uint8
}

// node is one master, and the requests under way between it and the clients.
type node struct {
	owner      owner
	ttl        uint8
	counter    uint8
	quarantine uint8 // ticks left
	tombstone  [owners]uint8
	links      [maxClients]link
}

// link is the requests from one client to one node: an ordered pipeline, and the requests that dead
// connections may still deliver.
type link struct {
	queue     [4]request
	mayArrive [maxAttempts]kinds
	votes     [maxAttempts]vote
}

// vote is a node's part in an attempt, as the client knows it, and the reply that the client has
// not read.
type vote struct {
	awaits kind  // the kind of the request under way
	reply  reply // to that request; silence until it ran
	answer reply // to the request for a grant, once read
	token  uint8 // the counter that came with the grant
	resent uint8 // 1 when the request for a grant was resent: its first copy may be granted at any time
	read   uint8 // 1 when it is in R, the grants that were read when the quorum was reached
	raised uint8 // 1 when the node confirmed the write-back
	left   uint8 // d_i − now: how long the node keeps the grant, by its last confirmation
	offer  uint8 // left after the request under way succeeds: it counts from the instant of the sending
	unsent unsent
}

// unsent says of the node of a second wave what it was not sent.
type unsent uint8

const (
	allSent    unsent = iota
	noAcquire         // the request for a grant; a repair was sent
	nothingYet        // anything: it gets no release
)

type attempt struct {
	phase phase
	token uint8
	seed  uint8
	floor uint8 // the highest token that had been acquired when the attempt began
	offer uint8 // as a vote's, but counted from the latest request to any node
	first uint8 // as a vote's, but counted from the first requests
}

type phase uint8

const (
	unborn   phase = iota
	asking         // until the quorum is reached
	settling       // the token; then the clock is read
	holding        // the client believes that it holds
	over           // failed, lost or released
)

// request is a kind and the number of the client's attempt; a release may leave a tombstone.
type request uint8

const (
	second request = 1 << 3 // of the client's second attempt
	marked request = 1 << 4 // it leaves a tombstone
)

func numbered(number uint8) request { return request(number) << 3 }
func (r request) kind() kind        { return kind(r & 7) }
func (r request) number() uint8     { return uint8(r & second >> 3) }

type kind uint8

const (
	nothing kind = iota
	acquire
	raise
	renew
	extend
	repair
	release
)

// kinds is a set of kinds.
type kinds uint8

func setOf(k kind) kinds          { return 1 << k }
func (all kinds) has(k kind) bool { return all&setOf(k) != 0 }

type reply uint8

const (
	silence reply = iota
	yes
	no
)

func (s *state) vote(o owner, i int) *vote { return &s.nodes[i].links[o.client()].votes[o.number()] }

func (l *link) push(r request) {
	for i := range l.queue {
		if l.queue[i] == 0 || l.queue[i] == r { // the same request again, behind itself, does nothing
			l.queue[i] = r
			return
		}
	}
	panic("the model's pipelines are too short")
}
