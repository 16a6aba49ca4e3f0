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

// ---- What a node does. Each request is one script: carried out at once, and wholly.

func (m *setup) carryOut(s *state, n *node, c uint8, r request) (reply, uint8) {
	o := ownerOf(c, r.number())
	a, id := &s.attempts[o-1], m.id(o)
	switch r.kind() {
	case acquire:
		return m.grant(n, id, true, a.seed)
	case repair:
		return m.grant(n, id, false, a.token)
	case raise:
		granted := n.links[c].votes[r.number()].token
		switch {
		case !m.keeps(raiseOwned):
		case n.owner != id:
			return no, 0
		case m.keeps(raiseSameGrant) && n.counter != granted && n.counter != a.token:
			return no, 0 // another had it in between: a copy of the request for the grant came late, and found the node free
		}
		n.counter = max(n.counter, a.token)
	case renew, extend:
		if n.owner != id {
			return no, 0
		}
		ttl := m.lease
		if r.kind() == extend {
			ttl = m.maxLease
		}
		if m.keeps(ttlOnlyRises) {
			ttl = max(ttl, n.ttl)
		}
		n.ttl, n.counter = ttl, max(n.counter, a.token)
	case release:
		if n.owner == id {
			n.owner, n.ttl = 0, 0
		}
		if r&marked != 0 {
			n.tombstone[id-1] = m.maxLease
		}
	}
	return yes, 0
}

// grant is acquire.lua: a fresh grant counts up, but a request that comes twice and a repair do not.
func (m *setup) grant(n *node, id owner, fresh bool, token uint8) (reply, uint8) {
	mine := n.owner == id
	if n.tombstone[id-1] > 0 {
		return no, 0
	}
	if n.quarantine > 0 && (fresh || !mine && m.keeps(noRepairInQuarantine)) {
		m.notice(n)
		return no, 0
	}
	if n.owner != 0 && !mine {
		return no, 0
	}
	if fresh && !mine && m.tokens && m.keeps(countInScript) {
		n.counter++
	}
	n.owner, n.ttl, n.counter = id, max(n.ttl, m.lease), max(n.counter, token)
	return yes, n.counter
}

// notice writes the marker of a node that has restarted. The quarantine lasts from when the first client, any client, notices.
func (m *setup) notice(n *node) {
	if n.quarantine == noMarker {
		n.quarantine = m.maxLease
	}
}

// id is what an attempt is known by on the nodes.
func (m *setup) id(o owner) owner {
	if m.keeps(freshOwner) {
		return o
	}
	return ownerOf(o.client(), 0)
}

// ---- What a client does.

// begin asks every node at once.
func (m *setup) begin(s *state, o owner) {
	a := &s.attempts[o-1]
	*a = attempt{phase: asking, floor: s.highest}
	if m.honest && m.tokens && m.keeps(seedFromClock) {
		a.seed = s.ticks * seedStep
	}
	for i := range s.nodes {
		m.send(s, o, i, acquire)
	}
}

// send puts a request into the pipeline, and notes the clock.
func (m *setup) send(s *state, o owner, i int, k kind) {
	l, offer := &s.nodes[i].links[o.client()], m.lease
	if k == extend {
		offer = m.maxLease
	}
	l.push(request(k) | numbered(o.number()))
	l.votes[o.number()].awaits, l.votes[o.number()].offer = k, offer
	s.attempts[o-1].offer = offer
}

// hear reads a node's reply.
func (m *setup) hear(s *state, o owner, i int) {
	a, v := &s.attempts[o-1], s.vote(o, i)
	asked, said := v.awaits, v.reply
	v.awaits, v.reply = nothing, silence
	if asked == acquire {
		v.answer = said
		if !m.keeps(countFromOwnSend) {
			v.offer = a.offer
		}
	}
	switch {
	case asked == raise && said == yes:
		v.raised = 1
	case asked == raise && m.keeps(frozenReads):
		m.end(s, o) // exactly as many were read as are needed
	case asked == raise:
	case said == yes:
		v.left = max(v.left, v.offer)
	case said == no:
		v.left = 0
	}
	switch {
	case a.phase == asking:
		m.judge(s, o)
	case a.phase == holding && m.deadline(s, o) == 0:
		m.lose(s, o)
	case a.phase == over && m.deadline(s, o) > 0 && !m.keeps(deadStaysDead):
		a.phase = holding
	}
}

// judge ends the asking as soon as the rule is met, or cannot be met any more. What is granted later counts for the deadline
// only.
func (m *setup) judge(s *state, o owner) {
	a, granted, denied := &s.attempts[o-1], 0, 0
	for i := range s.nodes {
		switch s.vote(o, i).answer {
		case yes:
			granted++
		case no:
			denied++
		}
	}
	switch {
	case denied > nodes-need:
		m.end(s, o)
	case granted >= need:
		a.phase = settling
		for i := range s.nodes {
			if v := s.vote(o, i); v.answer == yes {
				v.read = 1
				a.token = max(a.token, v.token)
			}
		}
		if !m.keeps(countInScript) {
			a.token++
		}
		for i := range s.nodes {
			if v := s.vote(o, i); v.read == 1 && v.token < a.token {
				m.send(s, o, i, raise)
			}
		}
	}
}

// settled tells that as many of the nodes that were read as the rule needs stand no lower than the token.
func (m *setup) settled(s *state, o owner) bool {
	count := 0
	for i := range s.nodes {
		v := s.vote(o, i)
		if late := v.answer == yes && !m.keeps(frozenReads); v.read == 1 || late {
			if v.raised == 1 || v.token >= s.attempts[o-1].token {
				count++
			}
		}
	}
	return count >= need
}

// take makes a settled attempt a held lock. Reading the clock is its very last step.
func (m *setup) take(s *state, o owner) {
	if m.keeps(clockReadLast) && m.deadline(s, o) == 0 {
		m.end(s, o)
		return
	}
	a := &s.attempts[o-1]
	a.phase = holding
	if !m.tokens {
		return
	}
	bit, mask := &s.acquired[a.token/8], uint8(1)<<(a.token%8)
	if a.token <= a.floor || *bit&mask != 0 || m.honest && a.token <= s.highest {
		s.repeated = 1
	}
	*bit |= mask
	s.highest = max(s.highest, a.token)
}

// deadline is the need-th largest d_i, from now.
func (m *setup) deadline(s *state, o owner) uint8 {
	x, y, z := s.vote(o, 0).left, s.vote(o, 1).left, s.vote(o, 2).left
	return max(min(x, y), min(y, z), min(x, z))
}

// watch is a round of the watchdog: every node is asked to renew what it keeps, or to grant again what it does not keep.
func (m *setup) watch(s *state, o owner, how kind) {
	for i := range s.nodes {
		switch v := s.vote(o, i); {
		case v.awaits != nothing:
		case v.left > 0:
			m.send(s, o, i, how)
		default:
			m.send(s, o, i, repair)
		}
	}
}

// lose ends a hold at its deadline. It is dead for ever: no answer is read any more.
func (m *setup) lose(s *state, o owner) {
	if m.keeps(deadStaysDead) {
		m.end(s, o)
	} else {
		m.letGo(s, o)
	}
}

// end gives up an attempt that failed, or unlocks.
func (m *setup) end(s *state, o owner) {
	m.letGo(s, o)
	for i := range s.nodes {
		v := s.vote(o, i)
		*v = vote{token: v.token}
	}
}

// letGo sends a release to every node. Where an earlier request may come after it, on a connection that died, it leaves a
// tombstone; but lying clocks may end that at once.
func (m *setup) letGo(s *state, o owner) {
	s.attempts[o-1].phase = over
	for i := range s.nodes {
		l, r := &s.nodes[i].links[o.client()], request(release)|numbered(o.number())
		if l.strays[o.number()] != 0 && m.honest && m.keeps(tombstones) {
			r |= marked
		}
		l.push(r)
	}
}

// ---- What the world does.

// deliver carries out what is first in a pipeline.
func (m *setup) deliver(s *state, c uint8, i int) {
	n := &s.nodes[i]
	l := &n.links[c]
	r := l.queue[0]
	copy(l.queue[:], l.queue[1:])
	l.queue[len(l.queue)-1] = 0
	answer, token := m.carryOut(s, n, c, r)
	if v := &l.votes[r.number()]; v.awaits == r.kind() {
		v.reply = answer
		if r.kind() == acquire {
			v.token = token
		}
	}
}

// stray carries out what a connection that died delivers late. Nobody hears the reply.
func (m *setup) stray(s *state, c uint8, i int, r request) {
	n := &s.nodes[i]
	n.links[c].strays[r.number()] &^= setOf(r.kind())
	m.carryOut(s, n, c, r)
}

// die ends a connection. What was not carried out may be yet, in any order. A reply that was under way is lost. On the next
// connection releases go out again, and what is awaited does, too; or else, the node did not answer in time, it has failed.
func (m *setup) die(s *state, c uint8, i int, again bool) {
	s.deaths++
	l := &s.nodes[i].links[c]
	queue := l.queue
	l.queue = [len(l.queue)]request{}
	for _, r := range queue {
		if r != 0 {
			l.strays[r.number()] |= setOf(r.kind())
		}
		if r.kind() == release {
			if m.honest && m.keeps(tombstones) {
				r |= marked
			}
			l.push(r)
		}
	}
	for number := range m.attempts[c] {
		o, v := ownerOf(c, number), &l.votes[number]
		if v.awaits == nothing {
			continue
		}
		v.reply = silence
		if again && s.attempts[o-1].phase != over {
			l.push(request(v.awaits) | numbered(number))
			continue
		}
		failed := v.awaits
		v.awaits = nothing
		switch {
		case failed == raise && s.attempts[o-1].phase == settling:
			m.end(s, o)
		case failed == acquire && s.attempts[o-1].phase == asking:
			v.answer = no
			m.judge(s, o)
		}
	}
}

// restart brings a node back with its data; but its process is not the one that the marker names, and may have missed writes.
func (m *setup) restart(s *state, i int) {
	s.restarts++
	if m.keeps(quarantine) {
		s.nodes[i].quarantine = noMarker
	}
}

// forget is a restart without data, a flush, or another dataset.
func (m *setup) forget(s *state, i int) {
	s.forgets++
	s.nodes[i] = node{links: s.nodes[i].links}
	if m.keeps(quarantine) {
		s.nodes[i].quarantine = noMarker
	}
}

// tick lets time pass, everywhere alike. The context of a lock ends at its deadline, without needing a packet.
func (m *setup) tick(s *state) {
	if m.ticks > 0 {
		s.ticks++
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		count(&n.ttl)
		if n.ttl == 0 {
			n.owner = 0
		}
		if n.quarantine != noMarker {
			count(&n.quarantine)
		}
		for j := range n.tombstone {
			count(&n.tombstone[j])
		}
		for j := range n.links {
			for k := range n.links[j].votes {
				count(&n.links[j].votes[k].left)
				count(&n.links[j].votes[k].offer)
			}
		}
	}
	for j := range s.attempts {
		count(&s.attempts[j].offer)
		if s.attempts[j].phase == holding && m.deadline(s, owner(j+1)) == 0 {
			m.lose(s, owner(j+1))
		}
	}
}

func count(left *uint8) { *left = max(*left, 1) - 1 }

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

// ---- What may happen next, and what must not.

// successors calls f with every state that one step leads to.
func (m *setup) successors(s *state, f func(step, *state)) {
	var next state
	try := func(what step, apply func(*state)) {
		next = *s
		apply(&next)
		f(what, &next)
	}
	for c := range m.clients() {
		for number := range m.attempts[c] {
			m.clientSteps(s, ownerOf(c, number), try)
		}
		for i := range s.nodes {
			m.linkSteps(s, c, i, try)
		}
	}
	for i := range s.nodes {
		if s.restarts < m.restarts {
			try(step{does: restarts, node: uint8(i)}, func(s *state) { m.restart(s, i) })
		}
		if s.forgets < m.forgets {
			try(step{does: forgets, node: uint8(i)}, func(s *state) { m.forget(s, i) })
		}
		if s.nodes[i].quarantine == noMarker {
			try(step{does: notices, node: uint8(i)}, func(s *state) { m.notice(&s.nodes[i]) })
		}
		if !m.honest && s.nodes[i].owner != 0 {
			try(step{does: expires, node: uint8(i)}, func(s *state) { s.nodes[i].owner, s.nodes[i].ttl = 0, 0 })
		}
	}
	if m.honest && (m.ticks == 0 || s.ticks < m.ticks) {
		try(step{does: ticks}, m.tick)
	}
}

func (m *setup) clientSteps(s *state, o owner, try func(step, func(*state))) {
	what := step{client: o.client(), number: o.number()}
	does := func(does action, apply func(*state, owner)) {
		what.does = does
		try(what, func(s *state) { apply(s, o) })
	}
	a := &s.attempts[o-1]
	switch a.phase {
	case unborn:
		if o.number() == 0 || s.attempts[o-2].phase == over {
			does(begins, m.begin)
		}
		return
	case settling:
		if m.settled(s, o) {
			does(takes, m.take)
		}
	case holding:
		if m.fixed {
			break
		}
		what.kind = renew
		does(watches, func(s *state, o owner) { m.watch(s, o, renew) })
		if m.maxLease > m.lease {
			what.kind = extend
			does(watches, func(s *state, o owner) { m.watch(s, o, extend) })
		}
		what.kind = nothing
	}
	// With lying clocks an end does no more than make room for the client's next attempt.
	if a.phase != over && (m.honest || o.number()+1 < m.attempts[o.client()]) {
		does(ends, m.end)
	}
}

func (m *setup) linkSteps(s *state, c uint8, i int, try func(step, func(*state))) {
	l := &s.nodes[i].links[c]
	does := func(does action, number uint8, k kind, apply func(*state)) {
		try(step{does: does, client: c, number: number, node: uint8(i), kind: k}, apply)
	}
	if r := l.queue[0]; r != 0 {
		number, k := r.number(), r.kind()
		deliver := func(d action, then func(*state)) {
			does(d, number, k, func(s *state) {
				m.deliver(s, c, i)
				then(s)
			})
		}
		if l.votes[number].awaits != k {
			deliver(delivers, func(*state) {})
		} else {
			deliver(delivers, func(s *state) { m.hear(s, ownerOf(c, number), i) })
			if m.late.has(k) {
				deliver(deliversUnread, func(*state) {})
			}
			if s.deaths < m.deaths {
				deliver(deliversUnheard, func(s *state) { m.die(s, c, i, true) })
				deliver(deliversUnanswered, func(s *state) { m.die(s, c, i, false) })
			}
		}
	}
	for number := range m.attempts[c] {
		o := ownerOf(c, number)
		// A late reply to a request for a grant is read when the rule has been met without it.
		if v := l.votes[number]; v.reply != silence && (v.awaits != acquire || s.attempts[o-1].phase != asking) {
			does(hears, number, v.awaits, func(s *state) { m.hear(s, o, i) })
		}
		for k := acquire; k <= release; k++ {
			if l.strays[number].has(k) {
				does(strays, number, k, func(s *state) { m.stray(s, c, i, request(k)|numbered(number)) })
			}
		}
	}
	if s.deaths < m.deaths && (l.queue[0] != 0 || l.awaits()) {
		does(dies, 0, nothing, func(s *state) { m.die(s, c, i, true) })
		if l.awaits() {
			does(timesOut, 0, nothing, func(s *state) { m.die(s, c, i, false) })
		}
	}
}

func (l *link) awaits() bool { return l.votes[0].awaits != nothing || l.votes[1].awaits != nothing }

// broken says which promise a state breaks, if any.
func (m *setup) broken(s *state) string {
	held := 0
	for i := range s.attempts {
		if s.attempts[i].phase == holding {
			held++
		}
	}
	switch {
	case m.honest && held > 1:
		return "two hold the lock"
	case s.repeated == 1:
		return "the token is not greater"
	}
	return ""
}
