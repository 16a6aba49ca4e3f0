package membership

import "slices"

// forget is a restart without data, or a flush.
func (m *setup) forget(s *state, n int) { s.nodes[n] = node{} }

// restart is a restart with data. The marker names the old process: it counts as blank.
func (m *setup) restart(s *state, n int) {
	x := &s.nodes[n]
	x.marker, x.quarantine, x.wait = blank, 0, 0
}

// tick advances time everywhere alike.
func (m *setup) tick(s *state) {
	var held [maxClients]bool
	for c := range s.clients {
		held[c] = m.holds(s, c)
		for n := range s.clients[c].left {
			count(&s.clients[c].left[n])
		}
	}
	for n := range s.nodes {
		x := &s.nodes[n]
		count(&x.quarantine)
		count(&x.wait)
		if x.owner != 0 && s.clients[x.owner-1].left[n] == 0 {
			x.owner = 0
		}
	}
	for c := range s.clients {
		if held[c] && !m.holds(s, c) { // its deadline: no answer revives it
			m.release(s, c)
		}
	}
	for l := range m.lists {
		p := &s.lists[l]
		if m.keeps(evidenceAge) {
			for n := range p.fresh {
				count(&p.fresh[n])
			}
			if m.evidence(s, l) == 0 {
				p.known = [maxKnown]marker{}
			}
		}
		if p.stage != idle && m.keeps(looksAge) {
			count(&p.sure)
			if p.sure == 0 {
				p.giveUp()
			}
		}
		if p.flightTo != 0 && m.keeps(freshAtArrival) {
			count(&p.left)
			if p.left == 0 {
				p.flightTo, p.flight = 0, blank
			}
		}
	}
}

func count(left *uint8) { *left = max(*left, 1) - 1 }

// send puts a mark on its way. It lapses with the evidence.
func (m *setup) send(s *state, l, n int, copied marker) bool {
	p, left := &s.lists[l], m.evidence(s, l)
	if left == 0 || p.flightTo != 0 {
		return false
	}
	if !m.keeps(freshAtArrival) {
		left = 0
	}
	p.flightTo, p.flight, p.left = uint8(n+1), copied, left
	return true
}

func (m *setup) arrive(s *state, l, n int) {
	p := &s.lists[l]
	if s.nodes[n].marker == blank {
		m.write(&s.nodes[n], p.flight, quarantineAtMark)
	}
	p.flightTo, p.flight, p.left = 0, blank, 0
}

// learn lets every list's clients know what the nodes tell them. Knowing more never stops a client
// from marking, so the best informed client stands for all.
func (m *setup) learn(s *state) {
	for l, mine := range m.lists {
		p := &s.lists[l]
		if m.settledFor(s, mine) {
			*p = party{}
			continue
		}
		for _, n := range mine.nodes() {
			if x := s.nodes[n].marker; x.letsIn(mine) {
				p.fresh[n] = m.maxLease
				p.know(x)
			}
		}
		p.sort()
	}
}

// settledFor reports whether no node of the list will be blank or claimed any more.
func (m *setup) settledFor(s *state, l list) bool {
	if s.restarts < m.restarts || s.forgets < m.forgets {
		return false
	}
	for _, n := range l.nodes() {
		if x := s.nodes[n].marker; x == blank || x.claimed() {
			return false
		}
	}
	return true
}

func (p *party) know(x marker) {
	for k := range p.known {
		if p.known[k] == x || p.known[k] == blank {
			p.known[k] = x
			return
		}
	}
	panic("the model knows too few markers")
}

// sort gives equal knowledge equal states.
func (p *party) sort() {
	for i := range p.known {
		for k := i; k > 0 && p.known[k] > p.known[k-1]; k-- {
			p.known[k], p.known[k-1] = p.known[k-1], p.known[k]
		}
	}
}

// successors calls f with every state that one step leads to.
func (m *setup) successors(s *state, f func(step, *state)) {
	var next state
	try := func(what step, apply func(*state) bool) {
		next = *s
		if apply(&next) {
			m.learn(&next)
			f(what, &next)
		}
	}
	for c, who := range m.clients {
		for _, n := range who.reaches.nodes() {
			try(event(acquires, c, n, 0), func(s *state) bool { return m.acquire(s, c, n) })
			try(event(renews, c, n, 0), func(s *state) bool { return m.renew(s, c, n) })
		}
		try(event(releases, c, 0, 0), func(s *state) bool { return m.release(s, c) })
	}
	for l := range m.lists {
		m.partySteps(s, l, try)
	}
	for i := range s.ops {
		if i == 0 || m.pair {
			m.operatorSteps(s, i, try)
		}
	}
	for n := range s.nodes {
		if s.nodes[n].marker == blank && s.nodes[n].owner == 0 {
			continue
		}
		if s.restarts < m.restarts {
			try(event(restarts, 0, n, 0), func(s *state) bool { s.restarts++; m.restart(s, n); return true })
		}
		if s.forgets < m.forgets {
			try(event(forgets, 0, n, 0), func(s *state) bool { s.forgets++; m.forget(s, n); return true })
		}
	}
	try(event(ticks, 0, 0, 0), func(s *state) bool { m.tick(s); return true })
}

func (m *setup) partySteps(s *state, l int, try func(step, func(*state) bool)) {
	p := &s.lists[l]
	for _, n := range m.lists[l].nodes() {
		if m.free && s.nodes[n].marker == blank {
			for k, x := range append(p.known[:], carry(m.lists[l], 0, 0)) {
				try(event(claims, l, n, k), func(s *state) bool {
					m.write(&s.nodes[n], x|claimed, quarantineAtClaim)
					return x != blank
				})
			}
		}
		if m.markable(&s.nodes[n]) {
			for k, x := range p.known {
				switch {
				case x == blank:
				case m.late:
					try(event(sends, l, n, k), func(s *state) bool { return m.send(s, l, n, x) })
				default:
					try(event(marks, l, n, k), func(s *state) bool { return m.mark(s, l, n, x) })
				}
			}
			if !m.keeps(evidence) {
				try(event(marks, l, n, maxKnown), func(s *state) bool { return m.enoughAnswer(s, l, n) })
			}
		}
		if p.stage != idle || s.nodes[n].marker == blank || s.nodes[n].marker.claimed() {
			try(event(looks, l, n, 0), func(s *state) bool { return m.look(s, l, n) })
		}
	}
	if p.flightTo != 0 {
		n := int(p.flightTo - 1)
		try(event(arrives, l, n, 0), func(s *state) bool { m.arrive(s, l, n); return true })
	}
	if p.stage == claiming || p.stage == confirming {
		what, wanted := claims, seenBlank
		if p.stage == confirming {
			what, wanted = confirms, seenClaimed
		}
		n := slices.Index(p.seen[:], wanted) // in the order of the names
		try(event(what, l, n, 0), func(s *state) bool { return m.claim(s, l, n) })
	}
	if p.stage != idle {
		try(event(givesUp, l, 0, 0), func(s *state) bool { s.lists[l].giveUp(); return true })
	}
}

func (m *setup) operatorSteps(s *state, i int, try func(step, func(*state) bool)) {
	o := s.ops[i]
	if o.phase == resting {
		for e, by := range m.changes {
			try(event(prepares, i, e, 0), func(s *state) bool { return m.prepare(s, by) })
			for _, p := range []phase{checking, checkingAll, checkingNone} {
				if p == checkingNone && m.aborts == 0 {
					continue
				}
				try(event(reads, i, e, int(p)), func(s *state) bool {
					s.ops[i] = operator{edge: uint8(e + 1), phase: p}
					return m.read(s, &s.ops[i]) && m.useful(s, by, s.ops[i].phase)
				})
			}
		}
		return
	}
	e := int(o.edge - 1)
	switch o.phase {
	case checking, checkingAll, checkingNone:
		try(event(reads, i, e, int(o.phase)), func(s *state) bool { return m.read(s, &s.ops[i]) })
	default:
		try(event(sets, i, e, int(o.phase)), func(s *state) bool { m.set(s, &s.ops[i]); return true })
	}
	try(event(stops, i, e, 0), func(s *state) bool { s.ops[i] = operator{}; return true })
}

// useful reports whether there is anything to write, so that idle runs of the command are left out.
func (m *setup) useful(s *state, by change, p phase) bool {
	for _, n := range by.to.nodes() {
		x := s.nodes[n].marker
		switch {
		case p == announcing && x.next() != by.to, p == committing && x.members() != by.to,
			p == aborting && x.next() == by.to && !x.claimed():
			return true
		}
	}
	return p == checking || p == checkingAll || p == checkingNone
}
