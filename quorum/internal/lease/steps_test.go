package lease_test

import (
	"slices"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// world is a setup, ready to be searched.
type world struct {
	*setup
	ms     *masters
	ls     *leases
	places [maxClients][]int // the numbers of each client's names
	orders []int             // of orders3, those that the setup allows
	trial  trial
	last   [nodes][maxClients]linkKey // of the last state whose key was asked for
}

func newWorld(s setup) *world {
	s.complete()
	w := &world{setup: &s}
	for c := range s.clients() {
		for _, letter := range s.names[c] {
			w.places[c] = append(w.places[c], placeOf(letter))
		}
	}
	w.ms, w.ls = newMasters(&s), newLeases(&s)
	for order := range orders3 {
		if s.allows(order) {
			w.orders = append(w.orders, order)
		}
	}
	return w
}

// processOf is the master whose data a master has.
func (w *world) processOf(i int) int {
	if w.twins && i == 1 {
		return 0
	}
	return i
}

// step is one event of the trace.
type step struct {
	does   steps
	client uint8
	number uint8
	node   uint8
	place  uint8 // of a request among several, or of a plan
}

type steps uint8

const (
	callerDoes steps = iota // the events of a caller, a timer, and the shell follow
	delivers         = steps(ages) + 1 + iota
	deliversUnread
	deliversThenDies
	deliversThenTimesOut
	reads
	deliversLate
	reloads
	dies
	timesOut
	isRefused
	comesUp
	submits
	failsToSubmit
	restarts
	forgets
	notices
	bumped
	expires
	passes
	reverts
	strikes
	relents
	isAcknowledged // what follows happens to masters that fail over
	isNotAcknowledged
	applies
	isPromoted
	takesPlace
	losesAndTakesPlace
	follows
	isDemoted
	loses
	expiresAt
	noticesAt
	moves
	movesLate
)

// ---- What the shell and its pipelines do.

// happen has an attempt's machine take an event, and does what it says.
func (w *world) happen(s *state, c int, e event) {
	o := ownerOf(c, int(e.number))
	e.seed, e.client = s.seeds[o], uint8(slices.Index(w.reads[:], w.reads[c])) // clients of one kind are alike
	res := w.ls.react(s.leases[o], e)
	if res.broken != kept {
		s.broken = uint8(res.broken)
	}
	s.leases[o] = res.lease
	if res.held {
		w.acquires(s, c, o)
		if w.takes[c] {
			s.taken++
		}
	}
	if w.ls.states[res.lease].over {
		s.floors[o], s.seeds[o] = [maxNames]uint8{}, 0
		w.forgetReplies(s, c, e.number)
	}
	var room [16]do
	unsent := room[:0]
	for _, d := range res.does {
		l := &s.links[d.master][c]
		r := &w.ls.requests[d.request]
		isRelease := r.cmd.Do == lease.Release
		switch {
		case d.submits:
			push(l.submits[:], d.request)
		case isRelease && r.cmd.Depth == 0 && w.clock == lying: // an end of the lease does the same
		case isRelease && l.isDown:
			w.owe(l, d.request)
		case l.isDown:
			unsent = append(unsent, d)
		default:
			push(l.queue[:], w.ls.becomes(isAccepted, d.request))
		}
	}
	for _, d := range unsent {
		w.answer(s, c, int(d.master), d.request, lease.Reply{Is: lease.Unsent})
	}
}

func (w *world) isOver(s *state, c int, number uint8) bool {
	return w.ls.states[s.leases[ownerOf(c, int(number))]].over
}

// awaits reports whether something of an attempt's is under way to a master or from it.
func (w *world) awaits(l *link, number uint8) bool {
	isIts := func(id requestID) bool { return id != 0 && w.ls.requests[id].number == number }
	return slices.ContainsFunc(l.queue[:], isIts) || slices.ContainsFunc(l.submits[:], isIts) ||
		slices.ContainsFunc(l.unread[:], func(a answer) bool { return isIts(a.to) })
}

// reduce leaves out what makes no difference to what may follow.
func (w *world) reduce(s *state) {
	for i := range s.links {
		for c := range w.clients() {
			l := &s.links[i][c]
			for number := range w.attempts[c] {
				if l.mayBe>>number&1 == 1 && w.isOver(s, c, number) && !w.awaits(l, number) {
					l.mayBe &^= 1 << number
				}
			}
		}
	}
}

// isCalling reports whether a call that a holder made is yet to reach a master.
func (w *world) isCalling(s *state, c int, number uint8) bool {
	for i := range s.links {
		l := &s.links[i][c]
		for _, id := range l.queue {
			if r := &w.ls.requests[id]; id != 0 && r.number == number && of(lease.Enter, lease.Extend, lease.Release).has(r.cmd.Do) {
				return true
			}
		}
		if l.submits[0] != 0 {
			return true
		}
	}
	return false
}

// isQuiet reports whether no answer is under way to an attempt.
func (w *world) isQuiet(s *state, c int, number uint8) bool {
	for i := range s.links {
		if w.awaits(&s.links[i][c], number) {
			return false
		}
	}
	return true
}

// forgetReplies leaves out what makes no difference to a lease that is over: replies, and what is to be
// known when they come.
func (w *world) forgetReplies(s *state, c int, number uint8) {
	for i := range s.links {
		l := &s.links[i][c]
		for k := 0; l.unread[k].to != 0; {
			if w.ls.requests[l.unread[k].to].number == number {
				remove(l.unread[:], k)
			} else {
				k++
			}
		}
		for k, id := range l.queue {
			if id != 0 && w.ls.requests[id].number == number {
				l.queue[k] = w.ls.becomes(isPlain, id)
			}
		}
	}
}

// owe keeps an owner's last release until the master answers again.
func (w *world) owe(l *link, id requestID) {
	number := w.ls.requests[id].number
	for i := 0; i < len(l.queue) && l.queue[i] != 0; {
		if w.ls.requests[l.queue[i]].number == number {
			remove(l.queue[:], i)
		} else {
			i++
		}
	}
	push(l.queue[:], id)
}

// answer gives a reply to the machine that asked.
func (w *world) answer(s *state, c, i int, id requestID, is lease.Reply) {
	r := &w.ls.requests[id]
	if r.cmd.Do == lease.Release || w.isOver(s, c, r.number) {
		return
	}
	is.Late = r.cmd.Do == lease.Raise && s.links[i][c].mayBe>>r.number&1 == 1
	w.happen(s, c, event{what: answered, number: r.number, master: uint8(i), to: id, is: w.ls.reply(is)})
}

func (w *world) read(s *state, c, i int) {
	a := shift(s.links[i][c].unread[:])
	w.answer(s, c, i, a.to, w.ls.replies[a.is])
}

// deliver has a master carry out the first request of a pipeline. The reply is unread.
func (w *world) deliver(s *state, c, i int) {
	l := &s.links[i][c]
	id := shift(l.queue[:])
	is, needs := w.carryOut(s, c, i, w.marked(l, id), l.at)
	if r := &w.ls.requests[id]; r.cmd.Do != lease.Release && !w.isOver(s, c, r.number) {
		if needs > 0 {
			id = w.sealed(id, needs)
		}
		push(l.unread[:], answer{id, w.ls.reply(is)})
	}
}

// submit has a client notice that a master is another process, or forgot, and send its request again.
func (w *world) submit(s *state, c, i, k int) {
	if at := &s.masters[w.processOf(i)]; w.failsOver(i) {
		w.notice(s, i, s.links[i][c].at)
	} else if w.ms.states[*at].unaware {
		*at = w.ms.noticed(*at, 0)
	}
	id := s.links[i][c].submits[k]
	remove(s.links[i][c].submits[:], k)
	w.happen(s, c, event{what: submitted, number: w.ls.requests[id].number, master: uint8(i), to: id})
}

func (w *world) failToSubmit(s *state, c, i, k int) {
	id := s.links[i][c].submits[k]
	remove(s.links[i][c].submits[:], k)
	resent := w.ls.requests[id].resent
	w.answer(s, c, i, id, lease.Reply{Is: lease.Failed, Resent: resent, NothingDone: !resent})
}

// marked is a release that leaves a tombstone if a request for a grant may arrive late. With lying
// clocks the tombstone may end at once.
func (w *world) marked(l *link, id requestID) requestID {
	r := &w.ls.requests[id]
	if r.cmd.Do == lease.Release && r.cmd.Depth == 0 && l.mayBe>>r.number&1 == 1 && w.clock != lying {
		return w.ls.becomes(isMarked, id)
	}
	return id
}

func (w *world) carryOut(s *state, c, i int, id requestID, at place) (is lease.Reply, needs seal) {
	var found replied
	if w.failsOver(i) {
		if found = w.askProcess(s, c, i, id, at); found.sealed {
			needs = w.sealFor(s, i, at.process())
		}
	} else {
		master := &s.masters[w.processOf(i)]
		found = w.ms.ask(*master, c, id, &w.ls.requests[id], 0)
		*master = found.master
	}
	switch {
	case found.lower:
		s.broken = uint8(counterFell)
	case found.spoils:
		s.broken = uint8(spoiled)
	}
	return found.is, needs
}

func isAsk(d lease.Do) bool { return d == lease.Ask || d == lease.Repair || d == lease.Enter }

// die ends a connection. A request that the master did not carry out may still be, in any order, unless
// the process has ended too. A reply that was unread is lost. On the next connection requests are resent;
// or else the master did not answer in time, is not asked until it comes up, and owed releases come first.
func (w *world) die(s *state, c, i int, again, late bool) {
	l := &s.links[i][c]
	var room, failedRoom [len(l.unread) + len(l.queue)]requestID
	lost, failed := room[:0], failedRoom[:0]
	for _, a := range l.unread {
		if a.to != 0 {
			lost = append(lost, a.to)
		}
	}
	for _, id := range l.queue {
		if id != 0 {
			if late {
				l.addLate(w.at(w.ls.becomes(isPlain, w.marked(l, id)), l.at))
			}
			lost = append(lost, id)
		}
	}
	clear(l.unread[:])
	clear(l.queue[:])
	l.isDown = !again
	for _, id := range lost {
		r := &w.ls.requests[id]
		if isAsk(r.cmd.Do) {
			l.mayBe |= 1 << r.number
		}
		switch {
		case again && !(isAsk(r.cmd.Do) && w.isOver(s, c, r.number)): // then its release was sent
			push(l.queue[:], w.ls.becomes(isResent, id))
		case !again && r.cmd.Do == lease.Release:
			w.owe(l, id)
		default:
			failed = append(failed, id)
		}
	}
	for _, id := range failed {
		w.answer(s, c, i, id, lease.Reply{Is: lease.Failed, Resent: w.ls.requests[id].resent})
	}
}

// at notes where a request may arrive late.
func (w *world) at(id requestID, at place) requestID {
	r := w.ls.requests[id]
	r.at = at
	return w.ls.request(r)
}

// goDown fails the requests of a pipeline, of which none went out.
func (w *world) goDown(s *state, c, i int) {
	l := &s.links[i][c]
	queue := l.queue
	clear(l.queue[:])
	l.isDown = true
	for _, id := range queue {
		if id != 0 && w.ls.requests[id].cmd.Do == lease.Release {
			w.owe(l, id)
		}
	}
	for _, id := range queue {
		if id != 0 {
			resent := w.ls.requests[id].resent
			w.answer(s, c, i, id, lease.Reply{Is: lease.Failed, Resent: resent, NothingDone: !resent})
		}
	}
}

// restart makes a new process of a master. Its connections die with the old one.
func (w *world) restart(s *state, i int) {
	at := &s.masters[w.processOf(i)]
	*at = w.ms.changed(*at, itRestarts)
	for c := range w.clients() {
		if l := &s.links[i][c]; l.queue[0] != 0 || l.unread[0].to != 0 {
			w.die(s, c, i, true, false)
		}
	}
}

// noteHandOver notes that the first client hands over its lock, whose keys are left to their leases.
func (w *world) noteHandOver(s *state, st *leaseState) {
	s.handed, s.orphaned = true, s.orphaned|1
	if w.clock == honest {
		s.left = uint8((st.is.Deadline().Sub(now) + tick - 1) / tick)
	}
	if w.reverts > 0 {
		s.saved = s.masters
	}
}

// revert restarts a master with the data that it had at the handing over.
func (w *world) revert(s *state, i int) {
	s.masters[i] = s.saved[i]
	w.restart(s, i)
}

// pass lets a tick pass everywhere.
func (w *world) pass(s *state) {
	if w.ticks > 0 {
		s.ticks++
	}
	s.left -= min(s.left, 1)
	for i := range s.masters {
		switch {
		case w.failsOver(i):
			w.ageProcesses(s, i)
		case w.processOf(i) == i && i < w.masters():
			s.masters[i] = w.ms.changed(s.masters[i], itAges)
		}
		if s.handed && w.reverts > 0 {
			s.saved[i] = w.ms.changed(s.saved[i], itAges)
		}
		for c := range w.clients() {
			l := &s.links[i][c]
			for k, id := range l.queue {
				l.queue[k] = w.ls.becomes(isOlder, id)
			}
			for k, a := range l.unread {
				l.unread[k].to = w.ls.becomes(isOlder, a.to)
			}
			for k, id := range l.submits {
				l.submits[k] = w.ls.becomes(isOlder, id)
			}
		}
	}
	for o, id := range s.leases {
		if st := &w.ls.states[id]; st.begun && !st.over {
			c, number := o/maxAttempts, uint8(o%maxAttempts)
			w.happen(s, c, event{what: ages, number: number})
			// A late timer makes a difference only to answers that come meanwhile.
			if st := &w.ls.states[s.leases[o]]; st.phase == lease.Held && !st.valid && (!w.dozes || w.isQuiet(s, c, number)) {
				w.happen(s, c, event{what: isDue, number: number})
			}
		}
	}
}

// ---- What may happen next.

// trial tries the steps from a state, one after the other.
type trial struct {
	w    *world
	from *state
	to   state
	use  func(step, *state)
}

// do takes a step. Were it a func value, each step's apply would be allocated.
func (t *trial) do(what step, apply func(*state)) {
	t.to = *t.from
	apply(&t.to)
	t.w.reduce(&t.to)
	t.use(what, &t.to)
}

// successors calls f with every state that one step leads to.
func (w *world) successors(s *state, f func(step, *state)) {
	try := &w.trial
	try.w, try.from, try.use = w, s, f
	if !w.slow && w.submitsNow(s, try) {
		return
	}
	for c := range w.clients() {
		for number := range int(w.attempts[c]) {
			w.callerSteps(s, c, number, try)
		}
		for i := range w.masters() {
			w.linkSteps(s, c, i, try)
		}
	}
	for i := range w.masters() {
		switch {
		case w.failsOver(i):
			w.failoverSteps(s, i, try)
		case w.processOf(i) == i:
			w.masterSteps(s, i, try)
		}
	}
	if w.clock == honest && (w.ticks == 0 || s.ticks < w.ticks) {
		try.do(step{does: passes}, w.pass)
	}
}

// submitsNow lets a client that has to submit its list do so, or fail, before anything else happens.
func (w *world) submitsNow(s *state, try *trial) bool {
	for i := range s.links {
		for c := range w.clients() {
			if id := s.links[i][c].submits[0]; id != 0 {
				by := step{does: submits, client: uint8(c), number: w.ls.requests[id].number, node: uint8(i)}
				try.do(by, func(s *state) { w.submit(s, c, i, 0) })
				by.does = failsToSubmit
				try.do(by, func(s *state) { w.failToSubmit(s, c, i, 0) })
				return true
			}
		}
	}
	return false
}

func (w *world) callerSteps(s *state, c, number int, try *trial) {
	o := ownerOf(c, number)
	st := &w.ls.states[s.leases[o]]
	after := func(what events, plan int, first func(*state)) {
		by := step{does: steps(what), client: uint8(c), number: uint8(number), place: uint8(plan)}
		try.do(by, func(s *state) {
			first(s)
			w.happen(s, c, event{what: what, number: uint8(number), plan: uint8(plan)})
		})
	}
	does := func(what events) { after(what, 0, func(*state) {}) }
	if !st.begun {
		if number > 0 {
			if last := &w.ls.states[s.leases[o-1]]; !last.over && last.phase != lease.Orphaned {
				return
			}
		}
		if w.takes[c] && !s.handed {
			return
		}
		for plan := range w.ls.plans {
			if plan == 0 || w.probes {
				after(begins, plan, func(s *state) {
					if w.tokens {
						s.floors[o] = s.highest
					}
					s.seeds[o] = w.seed(s)
				})
			}
		}
		return
	}
	if st.over {
		return
	}
	ends := w.ends(c, number)
	if st.asksOn {
		does(asksOn)
	}
	switch st.phase {
	case lease.Asking, lease.Settling:
		if st.settled {
			does(holds)
		}
		if ends {
			does(givesUp)
		}
	case lease.Held:
		if !w.fixed || !st.valid {
			does(isDue)
		}
		calls := !w.isCalling(s, c, uint8(number))
		if st.valid && st.depth < w.depths && calls {
			does(enters)
		}
		if st.depth > 1 && calls {
			does(leaves)
		}
		if st.valid && w.setup.extends && calls {
			does(extends)
		}
		if st.valid && w.lowers && !st.reads && st.depth == 1 && calls {
			does(downgrades)
		}
		if ends {
			does(unlocks)
		}
		if st.valid && o == 0 && w.setup.handsOver() {
			after(handsOver, 0, func(s *state) { w.noteHandOver(s, st) })
		}
		if w.closes {
			after(isClosed, 0, func(s *state) { s.orphaned |= 1 << o })
		}
	case lease.Lingering:
		does(isDue)
	case lease.Orphaned:
		after(unlocks, 0, func(s *state) {
			if w.minHold == 0 {
				s.orphaned &^= 1 << o
			}
		})
	}
}

// seed is a client's clock. Without tokens each grant has the same one.
func (w *world) seed(s *state) uint8 {
	switch {
	case !w.tokens:
		return 1
	case w.clock == honest:
		return s.ticks * seedStep
	}
	return 0
}

func (w *world) linkSteps(s *state, c, i int, try *trial) {
	l := &s.links[i][c]
	does := func(what steps, number uint8, place int, apply func(*state)) {
		try.do(step{does: what, client: uint8(c), number: number, node: uint8(i), place: uint8(place)}, apply)
	}
	if id := l.queue[0]; id != 0 && !l.isDown && (!w.failsOver(i) || w.hasRoom(s, i, l.at) && l.unread[len(l.unread)-1].to == 0) {
		r := &w.ls.requests[id]
		one, next := r.number, func(s *state) { w.deliver(s, c, i) }
		if w.isOver(s, c, one) || r.cmd.Do == lease.Release || l.unread[0].to != 0 {
			does(delivers, one, 0, next)
		} else {
			does(delivers, one, 0, func(s *state) {
				next(s)
				switch l, to := &s.links[i][c], s.links[i][c].unread[0].to; {
				case to != 0 && w.ls.requests[to].seal == 0:
					w.read(s, c, i)
				case to != 0 && w.lag == 0 && w.isSealed(s, i, l.at, w.ls.requests[to].seal):
					w.readSealed(s, c, i, true)
				}
			})
			if w.late.has(r.cmd.Do) {
				does(deliversUnread, one, 0, next)
			} else if s.deaths < w.deaths && !w.failsOver(i) {
				does(deliversThenDies, one, 0, func(s *state) {
					next(s)
					s.deaths++
					w.die(s, c, i, true, true)
				})
				does(deliversThenTimesOut, one, 0, func(s *state) {
					next(s)
					s.deaths++
					w.die(s, c, i, false, true)
				})
			}
		}
	}
	if id := l.queue[0]; w.reloads && id != 0 && l.queue[1] != 0 && !l.isDown {
		if r := &w.ls.requests[id]; r.cmd.Do == lease.Renew || r.cmd.Do == lease.Extend {
			does(reloads, r.number, 0, func(s *state) {
				queue := s.links[i][c].queue[:]
				push(queue, shift(queue))
			})
		}
	}
	if id := l.unread[0].to; id != 0 && w.ls.requests[id].seal > 0 {
		r := &w.ls.requests[id]
		if w.isSealed(s, i, l.at, r.seal) {
			does(isAcknowledged, r.number, 0, func(s *state) { w.readSealed(s, c, i, true) })
		}
		does(isNotAcknowledged, r.number, 0, func(s *state) { w.readSealed(s, c, i, false) })
	} else if id != 0 {
		does(reads, w.ls.requests[l.unread[0].to].number, 0, func(s *state) { w.read(s, c, i) })
	}
	for k, id := range l.late {
		if id != 0 && (!w.failsOver(i) || w.hasRoom(s, i, w.ls.requests[id].at)) {
			does(deliversLate, w.ls.requests[id].number, k, func(s *state) {
				remove(s.links[i][c].late[:], k)
				w.carryOut(s, c, i, id, w.ls.requests[id].at)
			})
		}
	}
	for k, id := range l.submits {
		if id != 0 {
			number := w.ls.requests[id].number
			does(submits, number, k, func(s *state) { w.submit(s, c, i, k) })
			does(failsToSubmit, number, k, func(s *state) { w.failToSubmit(s, c, i, k) })
		}
	}
	if w.failsOver(i) {
		w.moveSteps(s, c, i, does)
	}
	if l.isDown && !w.failsOver(i) {
		does(comesUp, 0, 0, func(s *state) { s.links[i][c].isDown = false })
		return
	}
	if busy := l.queue[0] != 0 || l.unread[0].to != 0; s.deaths < w.deaths && busy && !l.isDown {
		die := func(again bool) func(s *state) {
			return func(s *state) {
				s.deaths++
				w.die(s, c, i, again, true)
			}
		}
		does(timesOut, 0, 0, die(false))
		if w.failsOver(i) {
			return
		}
		does(dies, 0, 0, die(true))
		if l.unread[0].to == 0 {
			does(isRefused, 0, 0, func(s *state) {
				s.deaths++
				w.goDown(s, c, i)
			})
		}
	}
}

func (w *world) masterSteps(s *state, i int, try *trial) {
	at := &w.ms.states[s.masters[i]]
	becomes := func(does steps, what change, then func(*state)) {
		try.do(step{does: does, node: uint8(i)}, func(s *state) {
			s.masters[i] = w.ms.changed(s.masters[i], what)
			then(s)
		})
	}
	nothing := func(*state) {}
	if s.restarts < w.restarts {
		try.do(step{does: restarts, node: uint8(i)}, func(s *state) {
			s.restarts++
			w.restart(s, i)
		})
	}
	if s.forgets < w.forgets {
		becomes(forgets, itForgets, func(s *state) { s.forgets++ })
	}
	if s.handed && s.reverts < w.reverts {
		try.do(step{does: reverts, node: uint8(i)}, func(s *state) {
			s.reverts++
			w.revert(s, i)
		})
	}
	if at.unaware {
		try.do(step{does: notices, node: uint8(i)}, func(s *state) { s.masters[i] = w.ms.noticed(s.masters[i], 0) })
	}
	if s.bumps < w.bumps {
		becomes(bumped, itIsBumped, func(s *state) { s.bumps++ })
	}
	for what := itRefuses; what <= itIsSwapped; what++ {
		if w.kinds.has(what) && s.faults == 0 {
			try.do(step{does: strikes, node: uint8(i), place: uint8(what)}, func(s *state) {
				s.faults++
				s.masters[i] = w.ms.changed(s.masters[i], what)
			})
		}
	}
	if at.refuses {
		becomes(relents, itRelents, nothing)
	}
	if w.clock == lying && !at.free {
		becomes(expires, itsLeasesEnd, nothing)
	}
}
