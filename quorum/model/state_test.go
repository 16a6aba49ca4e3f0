package model

const (
	nodes       = 3
	need        = 2
	maxClients  = 3
	maxAttempts = 2
	owners      = maxClients * maxAttempts

	noMarker = 15 // the quarantine of a node that forgot before anybody noticed
	seedStep = 8  // by how much a seed rises in a tick: more than counters rise by grants
)

// setup is what a search goes through, and the one rule that it leaves out.
type setup struct {
	attempts [maxClients]uint8 // of each client: 0, 1 or 2
	honest   bool              // a lease ends in time. Else it ends on a node at any time, and its holder does not notice
	tokens   bool              // counters are kept. Without them the states repeat, and a search can be over all time
	lease    uint8             // ticks, of a grant and of a renewal
	maxLease uint8             // what a holder may extend it to, and how long a quarantine lasts
	fixed    bool              // leases are never renewed
	deaths   uint8             // how many connections may die
	restarts uint8             // how many times a node may restart with its data
	forgets  uint8             // how many times without
	ticks    uint8             // how long it all lasts; 0 is without end
	late     kinds             // the requests to which a client may read the reply late
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

// owner is an attempt of a client, counted from 1; 0 is nobody.
type owner uint8

func ownerOf(client, attempt uint8) owner { return owner(client*maxAttempts+attempt) + 1 }
func (o owner) client() uint8             { return uint8(o-1) / maxAttempts }
func (o owner) number() uint8             { return uint8(o-1) % maxAttempts }

// state is all there is. It is made of bytes only, to be compared and hashed at once.
type state struct {
	nodes [nodes]node
	world
}

// world is what is not of one node.
type world struct {
	attempts [owners]attempt
	acquired [8]uint8 // the set of the tokens of all acquisitions so far, a bit for each
	highest  uint8    // of them
	repeated uint8    // 1 when a token was not greater than it had to be
	ticks    uint8
	deaths   uint8
	restarts uint8
	forgets  uint8
}

// node is one master, and what is under way between it and the clients.
type node struct {
	owner      owner
	ttl        uint8
	counter    uint8
	quarantine uint8 // ticks left
	tombstone  [owners]uint8
	links      [maxClients]link
}

// link is what is under way from one client to one node: an ordered pipeline, and what connections that died may yet deliver.
type link struct {
	queue  [4]request
	strays [maxAttempts]kinds
	votes  [maxAttempts]vote
}

// vote is a node's part in an attempt, as the client knows it; but it has yet to read the reply.
type vote struct {
	awaits kind  // the request under way
	reply  reply // to it; silence until it was carried out
	answer reply // to the request for a grant, once read
	token  uint8 // the counter that came with the grant
	read   uint8 // 1 for R, the grants that were read when the rule was met
	raised uint8 // 1 when the node confirmed the write-back
	left   uint8 // d_i − now: how long the node keeps the grant, as far as it has confirmed
	offer  uint8 // what left becomes when the request under way succeeds: it counts from the instant that was sent
}

type attempt struct {
	phase phase
	token uint8
	seed  uint8
	floor uint8 // the highest token that had been acquired when it began
	offer uint8 // as a vote's, but counted from the latest request to any node
}

type phase uint8

const (
	unborn   phase = iota
	asking         // until the rule is met
	settling       // the token; then the clock is read
	holding        // and believing it
	over           // failed, lost or released
)

// request is a kind and whose it is; a release may leave a tombstone.
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

// kinds is a set.
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
		if l.queue[i] == 0 || l.queue[i] == r { // the same once more, behind itself, does nothing
			l.queue[i] = r
			return
		}
	}
	panic("the model's pipelines are too short")
}
