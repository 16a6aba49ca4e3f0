package lease_test

import (
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

const (
	maxProcesses = 4 // of all masters that fail over
	maxLag       = 2
)

// process is one of those that a master's name may lead to.
type process struct {
	data   masterID
	behind [maxLag]masterID // of a replica: what its master has become since, oldest first
	of     uint8            // of a replica: its master, counted from 1
	linked bool             // of a replica: what its master does arrives
	life   uint8            // how often it has restarted: each time with a run id of its own
	reign  uint8            // of a master: the promotion that made it, counted from 1. Each has a replication id of its own
	left   [3]leaving       // of a master: as what it sees replicas that have left
	alone  uint8            // of a master: how many ticks it lacks replicas
}

// leaving is how a replica left: its master does not know, or has noticed.
type leaving uint8

const (
	unseen leaving = iota
	upToDate
	outOfDate
)

// place is a process of a master that fails over, and its reign when a connection to it was made. It is 0 for another
// master.
type place uint8

const (
	refusing   place = 1 << 7
	firstPlace       = place(1 << 2)
)

func (p *process) place(number int) place {
	return place(number) | place(p.reign)<<2 | place(p.life)<<6
}
func (p place) process() int  { return int(p & 3) }
func (p place) reign() uint8  { return uint8(p>>2) & 15 }
func (p place) life() uint8   { return uint8(p>>6) & 1 }
func (p place) refuses() bool { return p&refusing != 0 }

// seal is what the reply to a call still needs: for each process, how many writes it has to acknowledge first.
type seal uint16

const (
	needed seal = 1 << 12
	never  seal = 15
)

func (s seal) of(process int) seal { return s >> (4 * process) & 15 }
func (s seal) with(process int, n seal) seal {
	return s&^(15<<(4*process)) | n<<(4*process)
}

func (s *setup) copies() int               { return int(s.replicas) + 1 }
func (s *setup) failsOver(master int) bool { return master < int(s.fails) }
func (s *setup) seals() bool               { return s.fails > 0 && s.stops == 0 }

// quarantined is how many ticks a master is in quarantine.
func (s *setup) quarantined() int {
	if s.stops > 0 {
		return s.maxLease + int(s.stops) + 1
	}
	return s.maxLease
}

func isPositive(a lease.Answer) bool { return a == lease.Granted || a == lease.Kept }

// seal is what a connection to that place wants.
func (m *masters) seal(at place) pipeline.Seal {
	return pipeline.Seal{Replicas: int(m.replicas), History: fmt.Sprint("h", at.reign())}
}

func (m *masters) runOf(at place) string {
	if at == 0 {
		return "process"
	}
	return m.seal(at).Run(fmt.Sprintf("p%d-%d", at.process(), at.life()))
}

func (w *world) process(s *state, master, number int) *process {
	return &s.processes[master*w.copies()+number]
}

// start is the state in which a search begins.
func (w *world) start() (s state) {
	for i := range int(w.fails) {
		for p := range w.copies() {
			if *w.process(&s, i, p) = (process{data: w.ms.first, of: 1, linked: true}); p == 0 {
				*w.process(&s, i, p) = process{data: w.ms.first, reign: 1}
			}
		}
		for c := range w.clients() {
			s.links[i][c].at = firstPlace
		}
	}
	return s
}

// askProcess has a process of a master that fails over carry out a request.
func (w *world) askProcess(s *state, c, i int, id requestID, at place) replied {
	p := w.process(s, i, at.process())
	r := &w.ls.requests[id]
	if st := &w.ms.states[p.data]; w.holdsOff && (r.cmd.Do == lease.Renew || r.cmd.Do == lease.Extend) &&
		(st.run != w.ms.runOf(at) || st.left > ticks(w.maxLease)) {
		return replied{master: p.data, is: lease.Reply{Is: lease.NotRenewed, Resent: r.resent}}
	}
	if p.of > 0 || w.hasStopped(p) {
		found := w.ms.ask(p.data, c, id, r, at|refusing)
		found.master = p.data
		return found
	}
	found := w.ms.ask(p.data, c, id, r, at)
	if found.master != p.data || found.sealed && w.ms.seal(at).Commands(0)[0][0] == "PUBLISH" {
		w.write(s, i, at.process(), found.master)
	}
	return found
}

// hasStopped reports whether a master refuses to write because it lacks replicas.
func (w *world) hasStopped(p *process) bool { return w.stops > 0 && !w.freezes && p.alone >= w.stops }

// hasRoom reports whether a process may write: no replica is too far behind.
func (w *world) hasRoom(s *state, i int, at place) bool {
	for f := range w.copies() {
		if r := w.process(s, i, f); r.linked && int(r.of) == at.process()+1 && w.lag > 0 && r.behind[w.lag-1] != 0 {
			return false
		}
	}
	return true
}

// write makes another state of a master's process, and sends it to its replicas.
func (w *world) write(s *state, i, number int, to masterID) {
	p := w.process(s, i, number)
	p.data = to
	for f := range w.copies() {
		r := w.process(s, i, f)
		switch {
		case r.linked && int(r.of) == number+1 && w.lag == 0:
			r.data = w.translated(to, number, f)
		case r.linked && int(r.of) == number+1:
			push(r.behind[:], to)
		case p.left[f] == upToDate:
			p.left[f] = outOfDate
		}
	}
}

// sealFor is what the reply to a request needs that a process has just carried out.
func (w *world) sealFor(s *state, i, number int) seal {
	is, p := needed, w.process(s, i, number)
	for f := range w.copies() {
		r := w.process(s, i, f)
		switch {
		case f == number:
		case r.linked && int(r.of) == number+1:
			n := seal(0)
			for n < maxLag && r.behind[n] != 0 {
				n++
			}
			is = is.with(f, n)
		case p.left[f] != upToDate:
			is = is.with(f, never)
		}
	}
	return is
}

// isSealed reports whether a reply counts.
func (w *world) isSealed(s *state, i int, at place, is seal) bool {
	p, acknowledged, attached := w.process(s, i, at.process()), 0, 0
	for f := range w.copies() {
		if f == at.process() {
			continue
		}
		if is.of(f) == 0 {
			acknowledged++
		}
		if r := w.process(s, i, f); p.left[f] != unseen || r.linked && int(r.of) == at.process()+1 {
			attached++
		}
	}
	now := redisconn.Info{"connected_slaves": strconv.Itoa(attached), "master_replid": fmt.Sprint("h", p.reign)}
	if p.of == 0 {
		now["role"] = "master"
	}
	return w.ms.seal(at).Broken(acknowledged, now) == nil
}

// acknowledge changes what unread replies of a master's process need of a replica.
func (w *world) acknowledge(s *state, i, number, replica int, change func(seal) seal) {
	for c := range w.clients() {
		l := &s.links[i][c]
		for k := range l.unread {
			r := w.ls.requests[l.unread[k].to]
			if r.seal == 0 || l.at.process() != number {
				continue
			}
			if n := r.seal.of(replica); change(n) != n {
				r.seal = r.seal.with(replica, change(n))
				l.unread[k].to = w.ls.request(r)
			}
		}
	}
}

// sealed notes what a reply needs.
func (w *world) sealed(id requestID, is seal) requestID {
	r := w.ls.requests[id]
	r.seal = is
	return w.ls.request(r)
}

// readSealed reads a reply that counts, or one that was not acknowledged in time.
func (w *world) readSealed(s *state, c, i int, counts bool) {
	a := shift(s.links[i][c].unread[:])
	r := w.ls.requests[a.to]
	r.seal = 0
	is := w.ls.replies[a.is]
	if !counts {
		is = lease.Reply{Is: lease.Failed, Resent: r.resent}
	}
	w.answer(s, c, i, w.ls.request(r), is)
}

// translated is one process's data as another has it: a time to live ends at an instant.
func (w *world) translated(id masterID, from, to int) masterID {
	ahead := func(number int) int8 {
		if number == 1 {
			return w.skew
		}
		return 0
	}
	switch d := ahead(to) - ahead(from); {
	case d > 0:
		return w.ms.changed(id, itIsAhead)
	case d < 0:
		return w.ms.changed(id, itIsBehind)
	}
	return id
}

// depart ends a process's link to its master, or its replicas' links.
func (w *world) depart(s *state, i, number int) {
	p := w.process(s, i, number)
	if p.linked {
		master := w.process(s, i, int(p.of)-1)
		if master.left[number] = upToDate; p.behind[0] != 0 {
			master.left[number] = outOfDate
		}
		w.acknowledge(s, i, int(p.of)-1, number, func(n seal) seal {
			if n > 0 {
				return never
			}
			return 0
		})
	}
	if p.of == 0 {
		for f := range w.copies() {
			if r := w.process(s, i, f); r.linked && int(r.of) == number+1 {
				r.linked, r.behind = false, [maxLag]masterID{}
			}
		}
	}
	*p = process{data: p.data, of: p.of, life: p.life}
}

// follow makes a process another's replica, with its data.
func (w *world) follow(s *state, i, number, master int) {
	w.depart(s, i, number)
	p, of := w.process(s, i, number), w.process(s, i, master)
	p.of, p.linked, p.data = uint8(master+1), true, w.translated(of.data, master, number)
	of.left[number] = unseen
	w.acknowledge(s, i, master, number, func(seal) seal { return 0 })
}

func (w *world) promote(s *state, i, number int) {
	w.depart(s, i, number)
	p := w.process(s, i, number)
	s.promoted++
	p.of, p.reign = 0, s.promoted+1
}

// lose has a process restart without some of its data.
func (w *world) lose(s *state, i, number int, what change) {
	s.forgets++
	w.depart(s, i, number)
	p := w.process(s, i, number)
	p.life++
	if p.data = w.ms.changed(p.data, what); p.of == 0 {
		s.promoted++
		p.reign = s.promoted + 1
	}
	for c := range w.clients() {
		if l := &s.links[i][c]; l.at.process() == number {
			w.die(s, c, i, false, false)
			l.at = 0
		}
	}
}

// takePlace has a replica take its master's place, after it has lost what it had, perhaps.
func (w *world) takePlace(s *state, i, number int, what change) {
	master := int(w.process(s, i, number).of) - 1
	w.depart(s, i, number)
	if p := w.process(s, i, number); what != itIsTheSame {
		p.data = w.ms.changed(p.data, what)
	}
	w.promote(s, i, number)
	w.follow(s, i, master, number)
	for c := range w.clients() {
		if l := &s.links[i][c]; !l.isDown {
			w.die(s, c, i, true, false)
			l.at = w.process(s, i, number).place(number)
		}
	}
}

// apply has a replica do what its master has done.
func (w *world) apply(s *state, i, number int) {
	p := w.process(s, i, number)
	p.data = w.translated(shift(p.behind[:]), int(p.of)-1, number)
	w.acknowledge(s, i, int(p.of)-1, number, func(n seal) seal {
		if n > 0 && n < never {
			n--
		}
		return n
	})
}

// ageProcesses lets a tick pass on a master that fails over.
func (w *world) ageProcesses(s *state, i int) {
	for number := range w.copies() {
		p, linked := w.process(s, i, number), 0
		p.data = w.ms.changed(p.data, itAges)
		for k := range p.behind {
			if p.behind[k] != 0 {
				p.behind[k] = w.ms.changed(p.behind[k], itAges)
			}
		}
		for f := range w.copies() {
			if r := w.process(s, i, f); r.linked && int(r.of) == number+1 {
				linked++
			}
		}
		switch {
		case w.stops == 0 || p.of > 0:
		case linked >= int(w.replicas):
			p.alone = 0
		default:
			p.alone = min(p.alone+1, w.stops)
		}
	}
}

// notice has a client mark the process that its connection leads to, if that has another's marker.
func (w *world) notice(s *state, i int, at place) bool {
	p := w.process(s, i, at.process())
	if p.of > 0 || w.hasStopped(p) || !w.hasRoom(s, i, at) || w.ms.states[p.data].run == w.ms.runOf(at) {
		return false
	}
	w.write(s, i, at.process(), w.ms.noticed(p.data, at))
	return true
}

// failoverSteps are what may happen to a master that fails over.
func (w *world) failoverSteps(s *state, i int, try *trial) {
	does := func(what steps, number, other int, apply func(*state)) {
		try.do(step{does: what, node: uint8(i), place: uint8(number | other<<4)}, apply)
	}
	for number := range w.copies() {
		p := w.process(s, i, number)
		if w.atOnce {
			if p.of > 0 && s.promoted < w.promotions {
				does(takesPlace, number, 0, func(s *state) { w.takePlace(s, i, number, itIsTheSame) })
			}
			if p.of > 0 && s.promoted < w.promotions && s.forgets < w.forgets {
				for how, what := range []change{itForgets, itsLeasesEnd} {
					does(losesAndTakesPlace, number, how, func(s *state) { s.forgets++; w.takePlace(s, i, number, what) })
				}
			}
		}
		if p.linked && p.behind[0] != 0 {
			does(applies, number, 0, func(s *state) { w.apply(s, i, number) })
		}
		if p.of > 0 && s.promoted < w.promotions && !w.atOnce {
			does(isPromoted, number, 0, func(s *state) { w.promote(s, i, number) })
		}
		for master := range w.copies() {
			if w.atOnce || master == number || w.process(s, i, master).of > 0 || p.linked && int(p.of) == master+1 {
				continue
			}
			does(follows, number, master, func(s *state) { w.follow(s, i, number, master) })
			if p.of == 0 {
				does(isDemoted, number, master, func(s *state) {
					w.depart(s, i, number)
					w.process(s, i, number).of = uint8(master + 1)
				})
			}
		}
		if s.forgets < w.forgets && !w.atOnce {
			for how, what := range []change{itForgets, itsLeasesEnd} { // or only its last writes
				does(loses, number, how, func(s *state) { w.lose(s, i, number, what) })
			}
		}
		if w.clock == lying && !w.ms.states[p.data].free {
			does(expiresAt, number, 0, func(s *state) {
				p := w.process(s, i, number)
				p.data = w.ms.changed(p.data, itsLeasesEnd)
			})
		}
		for c := range w.clients() {
			at := s.links[i][c].at
			if to := *s; !s.links[i][c].isDown && at.process() == number && w.notice(&to, i, at) {
				does(noticesAt, number, c, func(s *state) { w.notice(s, i, at) })
			}
		}
	}
}

// moveSteps are where else a client's connection to a master that fails over may lead.
func (w *world) moveSteps(s *state, c, i int, does func(steps, uint8, int, func(*state))) {
	l := &s.links[i][c]
	for number := range w.copies() {
		p := w.process(s, i, number)
		at := p.place(number)
		if p.of > 0 || !l.isDown && at == l.at {
			continue
		}
		if l.isDown {
			does(comesUp, 0, number, func(s *state) { s.links[i][c].isDown, s.links[i][c].at = false, at })
			continue
		}
		move := func(late bool) func(*state) {
			return func(s *state) {
				w.die(s, c, i, true, late)
				s.links[i][c].at = at
			}
		}
		if busy := l.queue[0] != 0 || l.unread[0].to != 0; !busy || !w.tokens { // requests that are resent count tokens up, for ever
			does(moves, 0, number, move(false))
		} else if s.deaths < w.deaths {
			does(moves, 0, number, func(s *state) { s.deaths++; move(false)(s) })
		}
		if s.deaths < w.deaths && l.queue[0] != 0 {
			does(movesLate, 0, number, func(s *state) { s.deaths++; move(true)(s) })
		}
	}
}
