package membership

import "slices"

// ---- What a client of the lock does. Each request is carried out and answered in one step.

// holds reports whether the client has a quorum of unexpired grants: it may commit at any time.
func (m *setup) holds(s *state, c int) bool {
	who, count := m.clients[c], 0
	for _, n := range who.reaches.nodes() {
		if s.clients[c].left[n] > 0 {
			count++
		}
	}
	return who.reaches != 0 && count >= who.names.quorum()
}

func (m *setup) acquire(s *state, c, n int) bool {
	x := &s.nodes[n]
	if x.owner != 0 || x.quarantine > 0 || !x.marker.letsIn(m.clients[c].names) {
		return false
	}
	x.owner, s.clients[c].left[n] = uint8(c+1), m.maxLease
	return true
}

// renew raises the deadline. A refusal by the list keeps the old one.
func (m *setup) renew(s *state, c, n int) bool {
	x := &s.nodes[n]
	if x.owner != uint8(c+1) || s.clients[c].left[n] == m.maxLease || !m.holds(s, c) {
		return false
	}
	unmarked := x.marker == blank || x.marker.claimed()
	switch {
	case x.marker.letsIn(m.clients[c].names):
	case x.marker == blank && !m.keeps(noRenewalOnBlank),
		x.marker.claimed() && !m.keeps(noRenewalOnClaim),
		!unmarked && !m.keeps(renewalsByList):
	default:
		return false
	}
	s.clients[c].left[n] = m.maxLease
	return true
}

// release ends an attempt or a lock on all nodes.
func (m *setup) release(s *state, c int) bool {
	if s.clients[c] == (client{}) {
		return false
	}
	s.clients[c] = client{}
	for n := range s.nodes {
		if s.nodes[n].owner == uint8(c+1) {
			s.nodes[n].owner = 0
		}
	}
	return true
}

// ---- How clients mark blank nodes.

// evidence is for how long at least a quorum of the list's nodes count as having let it in.
func (m *setup) evidence(s *state, l int) uint8 {
	var all [maxNodes]uint8
	members := m.lists[l].nodes()
	for i, n := range members {
		all[i] = s.lists[l].fresh[n]
	}
	slices.Sort(all[:len(members)])
	return all[len(members)-m.lists[l].quorum()]
}

// markable reports whether a client may mark the node on its evidence (R1).
func (m *setup) markable(x *node) bool {
	return x.marker == blank || x.marker.claimed() && !m.keeps(claimsStand)
}

// mark is the first rule. A client with evidence copies a marker that it has read.
func (m *setup) mark(s *state, l, n int, copied marker) bool {
	if !m.markable(&s.nodes[n]) || m.evidence(s, l) == 0 {
		return false
	}
	m.write(&s.nodes[n], copied, quarantineAtMark)
	return true
}

// enoughAnswer is the first rule as it was: enough nodes for a quorum answer, one lets the list in,
// and none that answers conflicts.
func (m *setup) enoughAnswer(s *state, l, n int) bool {
	count, carrier := 0, blank
	for _, i := range m.lists[l].nodes() {
		switch x := s.nodes[i].marker; {
		case x.letsIn(m.lists[l]):
			carrier = x
			count++
		case x == blank:
			count++
		}
	}
	if s.nodes[n].marker != blank || carrier == blank || count < m.lists[l].quorum() {
		return false
	}
	m.write(&s.nodes[n], carrier, quarantineAtMark)
	return true
}

// write marks a node, and begins a quarantine there by the given rule.
func (m *setup) write(x *node, to marker, by rule) {
	x.marker = to
	if m.keeps(by) {
		x.quarantine = m.maxLease
	}
}

// look is the second rule: it reads one marker.
func (m *setup) look(s *state, l, n int) bool {
	p, x, mine := &s.lists[l], s.nodes[n].marker, m.lists[l]
	if p.seen[n] != unseen || p.stage > looking {
		return false
	}
	if p.stage == idle { // a node that does not let it in makes a client look
		if x != blank && !x.claimedFor(mine) {
			return false
		}
		p.stage = looking
		if m.keeps(looksAge) {
			p.sure = m.maxLease
		}
	}
	switch {
	case x.letsIn(mine):
		p.seen[n] = seenIn
		if p.carrier == blank || x.generation() > p.carrier.generation() {
			p.carrier = x
		}
	case x.claimedFor(mine) && s.nodes[n].quarantine > 0 && m.keeps(claimsWait):
		p.seen[n] = seenWaiting
	case x.claimedFor(mine):
		p.seen[n] = seenClaimed
	case x == blank && !m.free:
		p.seen[n] = seenBlank
	default:
		return false // a conflict: it gives up
	}
	seen := 0
	for _, i := range mine.nodes() {
		if p.seen[i] != unseen {
			seen++
		}
	}
	if seen == mine.size() || seen >= mine.quorum() && !m.keeps(allAnswer) {
		m.proceed(p)
	}
	return true
}

// proceed goes to the next stage when the present one is done.
func (m *setup) proceed(p *party) {
	p.stage = claiming
	if !slices.Contains(p.seen[:], seenBlank) {
		p.stage = confirming
		if !slices.Contains(p.seen[:], seenClaimed) || slices.Contains(p.seen[:], seenWaiting) {
			p.giveUp()
		}
	}
}

func (p *party) giveUp() { p.stage, p.seen, p.carrier, p.sure = idle, [maxNodes]sight{}, blank, 0 }

// claim is the next claim, or the next confirmation of one. It gives up where the node has changed.
func (m *setup) claim(s *state, l, n int) bool {
	p, mine, x := &s.lists[l], m.lists[l], &s.nodes[n]
	if p.stage == claiming {
		if x.marker != blank {
			p.giveUp()
			return true
		}
		to := p.carrier
		if to == blank {
			to = carry(mine, 0, 0)
		}
		if m.keeps(claimFirst) {
			m.write(x, to|claimed, quarantineAtClaim)
			p.seen[n] = seenClaimed
			if x.quarantine > 0 && m.keeps(claimsWait) {
				p.seen[n] = seenWaiting
			}
		} else {
			m.write(x, settled(to), quarantineAtMark)
			p.seen[n] = seenIn
		}
	} else {
		switch {
		case x.marker.claimedFor(mine) && (x.quarantine == 0 || !m.keeps(claimsWait)):
			x.marker = settled(x.marker)
		case !x.marker.letsIn(mine):
			p.giveUp()
			return true
		}
		p.seen[n] = seenIn
	}
	m.proceed(p)
	return true
}

// settled is a claim that is confirmed.
func settled(x marker) marker {
	return carry(x.members(), max(x.generation(), 1), x.next())
}

// ---- What the operator's command does.

// prepare claims a node that is to be added. Its quarantine begins.
func (m *setup) prepare(s *state, by change) bool {
	added := by.to &^ by.from
	done := false
	for _, n := range added.nodes() {
		if s.nodes[n].marker == blank {
			m.write(&s.nodes[n], carry(by.to, 0, 0)|claimed, quarantineAtMark)
			done = true
		}
	}
	return done
}

// fit reports whether a member may be part of a change, as the command reads it.
func (m *setup) fit(o *operator, by change, n int, x *node) bool {
	if x.quarantine > 0 && m.keeps(quarantineOver) {
		return false
	}
	if !by.from.has(n) {
		return m.joins(by, x.marker)
	}
	switch {
	case x.marker.members() != by.from || x.marker.claimed() || x.marker.next() != 0 && x.marker.next() != by.to,
		o.generation != 0 && x.marker.generation() != int(o.generation),
		x.wait > 0 && m.keeps(waitAfterCommit):
		return false
	}
	o.generation = uint8(x.marker.generation())
	return true
}

// joins reports whether a node may be added: it was prepared for this, or an abort left it.
func (m *setup) joins(by change, x marker) bool {
	return x == carry(by.to, 0, 0)|claimed ||
		x.members() == by.from && !x.claimed() && (x.next() == 0 || x.next() == by.to)
}

// read is the command reading the members of the new list, before it writes.
func (m *setup) read(s *state, o *operator) bool {
	by := m.changes[o.edge-1]
	members := by.to.nodes()
	for {
		n := members[o.index]
		x := &s.nodes[n]
		ok := false
		switch o.phase {
		case checking:
			ok = m.fit(o, by, n, x)
		case checkingAll:
			ok = x.marker.letsIn(by.to)
		case checkingNone:
			ok = (x.marker.members() != by.to || x.marker.claimed()) && x.marker.generation() <= int(m.aborts)
		}
		if !ok {
			return false
		}
		o.index++
		if int(o.index) == len(members) {
			o.phase, o.index = o.phase+1, 0
			return true
		}
		if m.oneByOne {
			return true
		}
	}
}

// set writes one member, by compare-and-set.
func (m *setup) set(s *state, o *operator) {
	by := m.changes[o.edge-1]
	n := by.to.nodes()[o.index]
	x := &s.nodes[n]
	old := x.marker
	announced := carry(by.from, old.generation(), by.to)
	ok := true
	switch o.phase {
	case announcing:
		announced = carry(by.from, int(o.generation), by.to)
		switch {
		case old == announced:
		case old == carry(by.from, int(o.generation), 0), !m.keeps(compareAndSet),
			!by.from.has(n) && m.joins(by, old):
			x.marker = announced
		default:
			ok = false
		}
	case committing:
		switch {
		case old == announced || !m.keeps(compareAndSet) && old.members() != by.to:
			x.marker, x.wait = carry(by.to, old.generation()+1, 0), m.maxLease
		case old.members() != by.to || old.claimed():
			ok = false
		}
	case aborting:
		if old == announced {
			x.marker = carry(by.from, old.generation(), 0)
			if m.keeps(abortRaises) {
				x.marker = carry(by.from, old.generation()+1, 0)
			}
			if m.keeps(waitAfterAbort) {
				x.wait = m.maxLease
			}
		}
	}
	o.index++
	if !ok || int(o.index) == by.to.size() {
		*o = operator{}
	}
}
