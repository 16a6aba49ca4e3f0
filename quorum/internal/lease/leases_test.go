package lease_test

import (
	"bytes"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/visited"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// leases is the states of a lease that were found, and what it does with events: the shipped machine runs
// once for each pair.
type leases struct {
	*setup
	terms    [maxClients]lease.Terms
	states   []leaseState
	byKey    map[string]leaseID
	votes    map[string]uint32
	rests    map[string]uint32
	results  map[eventOf]result
	requests []request
	byAsked  map[request]requestID
	replies  []lease.Reply
	byReply  map[lease.Reply]replyID
	become   [isOlder + 1][]requestID // by request: what it becomes; 0 for one that is not known yet
	plans    []lease.Plan
}

type leaseState struct {
	is      *lease.Lease // nil for one that has not begun
	rest    uint32       // what makes it another lease, except its votes
	votes   [nodes]uint32
	phase   lease.Phase
	begun   bool
	over    bool // it has sent its last release
	valid   bool // now
	keeps   bool // masters keep it from others
	asksOn  bool // masters are left that it has not asked
	settled bool // Hold makes it a lock, or says why not
	reads   bool
	repairs uint8 // bit by master: the next renewal asks it for a grant
	depth   int
	token   uint64
}

// event is one that the machine takes.
type event struct {
	what   events
	client uint8
	number uint8 // of the client's attempt
	seed   uint8
	plan   uint8
	master uint8
	to     requestID
	is     replyID
}

type events uint8

const (
	begins events = iota
	asksOn
	holds
	givesUp
	isDue
	enters
	leaves
	extends
	downgrades
	unlocks
	isClosed
	handsOver
	answered
	submitted
	ages
)

type eventOf struct {
	lease leaseID
	event event
}

// do is one thing that the shell does at the machine's word.
type do struct {
	submits bool // the client's list; else it sends
	request requestID
	master  uint8
}

type result struct {
	lease  leaseID
	does   []do
	held   bool // it became a held lock
	broken promise
}

func newLeases(s *setup) *leases {
	l := &leases{setup: s, byKey: map[string]leaseID{}, votes: map[string]uint32{}, rests: map[string]uint32{},
		results: map[eventOf]result{}, byAsked: map[request]requestID{}, byReply: map[lease.Reply]replyID{}}
	for c := range l.terms {
		terms := &l.terms[c]
		*terms = lease.Terms{Quorum: quorate.Majority(s.masters()), Lease: ticks(s.lease), Fixed: s.fixed}
		if s.minHold > 0 {
			terms.MinHold = ticks(s.minHold)
		}
		if s.maxHold > 0 {
			terms.MaxHold = ticks(s.maxHold)
		}
		terms.StopBefore = time.Duration(s.stop) * tick
		if s.reads[c] {
			terms.Mode = lease.Read
		}
	}
	l.states = []leaseState{{}}
	l.requests, l.replies = make([]request, 1), make([]lease.Reply, 1)
	l.plans = make([]lease.Plan, 1)
	for first := range s.masters() {
		l.plans = append(l.plans, lease.Plan{First: first, Probe: true})
	}
	return l
}

// horizon is the instant before which nothing makes a difference.
func (l *leases) horizon() time.Duration {
	return time.Duration(max(l.lease, l.minHold, l.maxHold)) * tick
}

func (l *leases) intern(is *lease.Lease) leaseID {
	rest := is.AppendKey(nil, now, l.horizon(), l.timers)
	key := bytes.Clone(rest)
	var votes [nodes][]byte
	for i := range l.masters() {
		votes[i] = is.AppendVote(nil, i, now, l.timers, l.processOf)
		key = append(append(key, '/'), votes[i]...)
	}
	if id, known := l.byKey[string(key)]; known {
		return id
	}
	id := leaseID(len(l.states))
	l.byKey[string(key)] = id
	st := leaseState{is: is, rest: 1 + numberOf(l.rests, string(rest)), phase: is.Phase(), begun: true, over: is.IsDone(), valid: is.Valid(now),
		reads: is.Mode() == lease.Read, depth: is.Depth(), token: is.Token()}
	if err := is.Check(); err != nil && !mutate.IsMutant() { // a mutant may break one, and is found by what it promises
		panic(err)
	}
	st.keeps = is.Kept() && now.Before(is.Deadline())
	st.asksOn = is.HasUnasked() && !st.over
	for i := range l.masters() {
		st.votes[i] = 1 + numberOf(l.votes, string(votes[i]))
	}
	st.settled = is.IsSettled()
	if st.reads && is.Kept() && l.kinds != 0 {
		for _, c := range is.Clone().Renew(now, nil) {
			if c.Do == lease.Repair {
				st.repairs |= 1 << c.Master
			}
		}
	}
	l.states = append(l.states, st)
	return id
}

// processOf is a name for a process. If no process has two addresses, no two votes have one.
func (l *leases) processOf(process string) byte {
	if l.twins {
		return process[0]
	}
	return 0
}

// process names a master's process.
func (l *leases) process(master int) string {
	if l.twins && master == 1 {
		master = 0
	}
	return string(rune('0' + master))
}

func (l *leases) request(r request) requestID {
	return visited.Once(l.byAsked, r, func() requestID {
		if len(l.requests) > math.MaxUint16 {
			panic("too many requests")
		}
		l.requests = append(l.requests, r)
		return requestID(len(l.requests) - 1)
	})
}

func (l *leases) reply(r lease.Reply) replyID {
	return visited.Once(l.byReply, r, func() replyID {
		l.replies = append(l.replies, r)
		return replyID(len(l.replies) - 1)
	})
}

// becoming is what happens to a request.
type becoming int

const (
	isAccepted becoming = iota // a pipeline has taken it
	isPlain                    // no client awaits it
	isMarked                   // a release leaves a tombstone
	isResent
	isOlder // by a tick: all instants that have passed are alike
)

// becomes returns what a request becomes, and remembers it. None stays none.
func (l *leases) becomes(what becoming, id requestID) requestID {
	if id == 0 {
		return 0
	}
	known := &l.become[what]
	if int(id) < len(*known) && (*known)[id] != 0 {
		return (*known)[id]
	}
	r := l.requests[id]
	kept := lease.Command{Do: r.cmd.Do, Mode: r.cmd.Mode, Depth: r.cmd.Depth, Lease: r.cmd.Lease}
	switch what {
	case isAccepted:
		kept.Until = r.cmd.Until
		r.cmd = kept
	case isPlain:
		r.cmd, r.resent, r.seal = kept, false, 0
	case isMarked:
		r.marked = true
	case isResent:
		r.resent, r.seal = r.cmd.Do != lease.Release, 0
	case isOlder:
		if left := r.cmd.Until.Sub(now); r.cmd.Until != 0 {
			r.cmd.Until = now.Add(max(left-tick, 0))
		}
	}
	to := l.request(r)
	*known = append(*known, make([]requestID, len(l.requests)-len(*known))...)
	(*known)[id] = to
	return to
}

// react has the machine take an event, or returns what it did before.
func (l *leases) react(id leaseID, e event) result {
	return visited.Once(l.results, eventOf{id, e}, func() result { return l.take(id, e) })
}

// take runs the shipped machine, as the shell does: one call at a time, and with what follows from its
// outcome at once.
func (l *leases) take(id leaseID, e event) (res result) {
	st := &l.states[id]
	var m *lease.Lease
	if e.what == begins {
		m = new(lease.Lease)
		m.Init(&l.terms[e.client], make([]lease.Vote, l.masters()))
	} else {
		m = st.is.Clone()
	}
	wasOver, wasLingering := m.IsDone(), m.Phase() == lease.Lingering
	fail := func(p promise) {
		if res.broken == 0 {
			res.broken = p
		}
	}
	var out []lease.Command
	switch e.what {
	case begins:
		out = m.Begin(now, l.plans[e.plan], nil)
	case asksOn:
		out = m.AskOthers(nil)
	case holds:
		if res.held = m.Hold(now); !res.held {
			out = m.GiveUp(nil)
		} else {
			if !m.Valid(now) {
				fail(lateLock)
			}
			if !l.terms[0].Quorum.Enough(l.processes(m)) {
				fail(twiceCounted)
			}
		}
	case givesUp:
		out = m.GiveUp(nil)
	case isDue:
		var goesOn bool
		if goesOn, out = m.Due(now, nil); goesOn {
			out = m.Renew(now, out)
		}
	case enters:
		out = m.Enter(now, nil)
	case leaves:
		out = m.Leave(nil)
	case extends:
		out = m.Extend(now, ticks(l.maxLease), nil)
	case downgrades:
		out = m.Downgrade(now, nil)
	case unlocks:
		var lingers bool
		if lingers, out = m.Linger(now, nil); !lingers {
			out = m.Unlock(now, out)
		}
	case isClosed:
		out = m.Orphan(nil)
	case handsOver:
		out = m.HandOver(nil)
	case answered:
		cmd := l.requests[e.to].cmd
		cmd.Master = int(e.master)
		reply := l.replies[e.is]
		reply.Process = l.process(int(e.master))
		_, out = m.TakeReply(now, cmd, reply, nil)
	case submitted:
		r := l.requests[e.to]
		if again, goesOn := m.Submitted(r.cmdAt(e.master)); goesOn {
			out = append(out, again)
		} else {
			_, out = m.TakeReply(now, r.cmdAt(e.master), lease.Reply{Is: lease.Failed, Resent: r.resent, NothingDone: !r.resent}, out)
		}
	case ages:
		m.Age(tick)
	}
	// The call goes on when its outcome is certain.
	for i := 0; i < len(out); i++ {
		lost := m.Phase() == lease.Asking && (m.Verdict() == lease.OutOfReach || m.Verdict() == lease.Beaten)
		failed := m.Phase() == lease.Settling && m.Cause() != lease.NoCause
		if out[i].Do == lease.Decided && (lost || failed) {
			out = m.GiveUp(out)
		}
	}
	if m.Phase() == lease.Expired && !wasOver {
		if l.clock == still && l.forgets == 0 && l.restarts == 0 && l.reverts == 0 && !l.twins && l.fails == 0 {
			fail(lostInVain)
		}
		out = m.Drop(out)
	}
	released := false
	for _, c := range out {
		d := do{master: uint8(c.Master)}
		r := request{number: e.number, cmd: c}
		r.cmd.Master, r.cmd.Cause = 0, 0
		switch c.Do {
		case lease.Decided, lease.Stop, lease.End:
			continue
		case lease.Submit:
			d.submits = true
			r = l.requests[e.to]
		case lease.Ask:
			r.seed = e.seed
			if c.Mode != l.terms[e.client].Mode { // as package quorum makes it of a lease that was downgraded
				r.token = m.Token()
			}
		case lease.Repair, lease.Enter, lease.Renew, lease.Extend, lease.Raise:
			r.token = m.Token()
		}
		switch c.Do {
		case lease.Ask, lease.Repair, lease.Enter:
			if wasOver || released {
				fail(asksAfterRelease)
			}
		case lease.Release:
			released = released || c.Depth == 0
		}
		d.request = l.request(r)
		res.does = append(res.does, d)
	}
	if wasLingering && released && now.Before(m.MinHoldEnd()) && now.Before(m.Deadline()) {
		fail(shortHold)
	}
	if m.Valid(now) {
		begun := m.BegunAt()
		if l.fixed && !l.setup.extends && !now.Before(begun.Add(l.terms[0].Lease)) || l.maxHold > 0 && !now.Before(begun.Add(l.terms[0].MaxHold)) {
			fail(longHold)
		}
	}
	if m.Valid(now) && st.phase == lease.Held && st.begun && !st.valid {
		fail(revived)
	}
	if next, _ := m.Next(); l.timers && m.Phase() == lease.Held && m.Deadline().Before(next) {
		fail(forgotten)
	}
	if stop := m.Deadline().Add(-l.terms[0].StopBefore); m.Valid(now) && !m.Stopped() && l.stop > 0 {
		if next, _ := m.Next(); l.timers && max(stop, now).Before(next) || e.what == isDue && !now.Before(stop) || res.held && !now.Before(stop) {
			fail(goesOn)
		}
	}
	res.lease = l.intern(m)
	return res
}

func (r *request) cmdAt(master uint8) lease.Command {
	c := r.cmd
	c.Master = int(master)
	return c
}

// processes has one master for each process that keeps the lock.
func (l *leases) processes(m *lease.Lease) quorate.Set {
	keepers := m.KeepersAt(now)
	if l.twins && keepers&3 == 3 {
		keepers &^= 2
	}
	return keepers
}
