package model

// ---- What a node does. Each request is one script: it runs at once, and wholly.

func (m *setup) carryOut(s *state, n *node, c uint8, r request) (reply, uint8) {
	o := ownerOf(c, r.number())
	a, id := &s.attempts[o-1], m.id(o)
	switch r.kind() {
	case acquire:
		return m.grant(n, id, true, a.seed)
	case repair:
		return m.grant(n, id, false, a.token)
	case raise:
		resent := n.links[c].votes[r.number()].resent == 1
		switch {
		case !m.keeps(raiseOwned):
		case n.owner != id:
			return no, 0
		case m.keeps(raiseSameGrant) && resent && n.counter > a.token:
			return no, 0 // perhaps another owner had it meanwhile, and a late copy of the request was granted
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

// A node's counter is shared with neighbours, names that hash to the same one: see bump.

// grant is acquire.lua: a fresh grant counts up, a resent request and a repair do not.
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

// notice writes the marker of a node that restarted. The quarantine begins when the first client
// notices.
func (m *setup) notice(n *node) {
	if n.quarantine == noMarker {
		n.quarantine = m.maxLease
	}
}

// id is the owner id of an attempt on the nodes.
func (m *setup) id(o owner) owner {
	if m.keeps(freshOwner) {
		return o
	}
	return ownerOf(o.client(), 0)
}

// ---- What a client does.

// everyNode is the first wave that leaves out no node.
const everyNode = -1

// begin asks every node at once, but for one, which is left to the second wave.
func (m *setup) begin(s *state, o owner, without int) {
	a := &s.attempts[o-1]
	*a = attempt{phase: asking, floor: s.highest}
	if m.waves {
		a.first = m.lease
	}
	if m.honest && m.tokens && m.keeps(seedFromClock) {
		a.seed = s.ticks * seedStep
	}
	for i := range s.nodes {
		if i == without {
			s.vote(o, i).unsent = nothingYet
		} else {
			m.send(s, o, i, acquire)
		}
	}
}

// askOn asks the second wave. Its grant counts from the first requests, and it may follow a repair.
func (m *setup) askOn(s *state, o owner, i int) {
	v := s.vote(o, i)
	v.unsent = allSent
	m.send(s, o, i, acquire)
	v.offer = s.attempts[o-1].first
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

// readReply is the client reading a node's reply.
func (m *setup) readReply(s *state, o owner, i int) {
	a, v := &s.attempts[o-1], s.vote(o, i)
	asked, answer := v.awaits, v.reply
	v.awaits, v.reply = nothing, silence
	if asked == acquire {
		v.answer = answer
		if !m.keeps(countFromOwnSend) {
			v.offer = a.offer
		}
	}
	switch {
	case asked == raise && answer == yes:
		v.raised = 1
	case asked == raise && m.keeps(frozenReads):
		m.end(s, o) // exactly as many were read as the quorum needs
	case asked == raise:
	case answer == yes:
		v.left = max(v.left, v.offer)
	case answer == no:
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

// judge ends the asking as soon as the quorum is reached, or out of reach. A later grant counts for
// the deadline only.
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

// settled reports whether a quorum of the nodes that were read stands no lower than the token.
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

// commit makes a settled attempt a held lock. Reading the clock is its very last step.
func (m *setup) commit(s *state, o owner) {
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

// deadline is the time left until the need-th largest d_i.
func (m *setup) deadline(s *state, o owner) uint8 {
	x, y, z := s.vote(o, 0).left, s.vote(o, 1).left, s.vote(o, 2).left
	return max(min(x, y), min(y, z), min(x, z))
}

// watch is one tick of the watchdog: it asks every node to renew what the node keeps, or to grant
// again what it lost.
func (m *setup) watch(s *state, o owner, how kind) {
	for i := range s.nodes {
		switch v := s.vote(o, i); {
		case v.awaits != nothing:
		case v.left > 0:
			m.send(s, o, i, how)
		default:
			v.unsent = min(v.unsent, noAcquire)
			m.send(s, o, i, repair)
		}
	}
}

// lose ends a hold at its deadline. A lost hold reads no more replies.
func (m *setup) lose(s *state, o owner) {
	if m.keeps(deadStaysDead) {
		m.end(s, o)
	} else {
		m.releaseAll(s, o)
	}
}

// end gives up a failed attempt, or unlocks.
func (m *setup) end(s *state, o owner) {
	m.releaseAll(s, o)
	for i := range s.nodes {
		v := s.vote(o, i)
		*v = vote{token: v.token}
	}
}

// releaseAll sends a release to every node. The release leaves a tombstone where an earlier request
// may arrive after it, on a dead connection. With lying clocks no tombstone is left: its time may
// end at once.
func (m *setup) releaseAll(s *state, o owner) {
	s.attempts[o-1].phase = over
	for i := range s.nodes {
		l, r := &s.nodes[i].links[o.client()], request(release)|numbered(o.number())
		if s.vote(o, i).unsent == nothingYet {
			continue
		}
		if l.mayArrive[o.number()] != 0 && m.honest && m.keeps(tombstones) {
			r |= marked
		}
		l.push(r)
	}
}
