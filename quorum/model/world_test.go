package model

// ---- What the world does.

// deliver runs the first request of a pipeline.
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

// deliverLate runs a request that a dead connection delivers late. No client reads its reply.
func (m *setup) deliverLate(s *state, c uint8, i int, r request) {
	n := &s.nodes[i]
	n.links[c].mayArrive[r.number()] &^= setOf(r.kind())
	m.carryOut(s, n, c, r)
}

// die ends a connection. A request that did not run may still run, in any order. A reply that was
// under way is lost. On the next connection releases are resent, and so are awaited requests when
// again is true; else the node did not answer in time, and the awaited request has failed.
func (m *setup) die(s *state, c uint8, i int, again bool) {
	s.deaths++
	l := &s.nodes[i].links[c]
	queue := l.queue
	l.queue = [len(l.queue)]request{}
	for _, r := range queue {
		if r != 0 {
			l.mayArrive[r.number()] |= setOf(r.kind())
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
			if v.awaits == acquire {
				v.resent = 1
			}
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

// restart brings a node back with its data. Its marker names the old process, and it may have
// missed writes.
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

// bump is a grant of a neighbour on one node. It is all that neighbours do here: they have hashes and
// tombstones of their own, and their grants, write-backs, renewals and repairs raise the counter by
// any number, at any time, on any nodes.
func (m *setup) bump(s *state, i int) {
	s.bumps++
	s.nodes[i].counter++
}

// tick advances time everywhere alike. A lock's context ends at its deadline, and needs no packet
// for that.
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
		count(&s.attempts[j].first)
		if s.attempts[j].phase == holding && m.deadline(s, owner(j+1)) == 0 {
			m.lose(s, owner(j+1))
		}
	}
}

func count(left *uint8) { *left = max(*left, 1) - 1 }

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
		if s.bumps < m.bumps {
			try(step{does: bumps, node: uint8(i)}, func(s *state) { m.bump(s, i) })
		}
		if s.nodes[i].counter > 0 && !m.keeps(counterOnlyRises) {
			try(step{does: lowers, node: uint8(i)}, func(s *state) { s.nodes[i].counter-- })
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
			does(begins, func(s *state, o owner) { m.begin(s, o, everyNode) })
			for i := range s.nodes {
				if what.node = uint8(i); m.waves {
					does(beginsWithout, func(s *state, o owner) { m.begin(s, o, i) })
				}
			}
		}
		return
	case settling:
		if m.settled(s, o) {
			does(commits, m.commit)
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
	for i := range s.nodes {
		if v := s.vote(o, i); a.phase != over && v.unsent != allSent && v.awaits == nothing {
			what.node = uint8(i)
			does(asksOn, func(s *state, o owner) { m.askOn(s, o, i) })
		}
	}
	// With lying clocks an end only makes room for the client's next attempt.
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
			deliver(delivers, func(s *state) { m.readReply(s, ownerOf(c, number), i) })
			if m.late.has(k) {
				deliver(deliversUnread, func(*state) {})
			}
			if s.deaths < m.deaths {
				deliver(deliversThenDies, func(s *state) { m.die(s, c, i, true) })
				deliver(deliversThenTimesOut, func(s *state) { m.die(s, c, i, false) })
			}
		}
	}
	for number := range m.attempts[c] {
		o := ownerOf(c, number)
		// A late reply to a request for a grant is read once the quorum is reached without it.
		if v := l.votes[number]; v.reply != silence && (v.awaits != acquire || s.attempts[o-1].phase != asking) {
			does(reads, number, v.awaits, func(s *state) { m.readReply(s, o, i) })
		}
		for k := acquire; k <= release; k++ {
			if l.mayArrive[number].has(k) {
				does(deliversLate, number, k, func(s *state) { m.deliverLate(s, c, i, request(k)|numbered(number)) })
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

// broken names the promise that a state breaks, "" for none.
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
