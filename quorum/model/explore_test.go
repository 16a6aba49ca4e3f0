package model

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// step is one event of the trace.
type step struct {
	does                 action
	client, number, node uint8
	kind                 kind
}

type action uint8

const (
	begins action = iota
	beginsWithout
	asksOn
	commits
	watches
	ends
	delivers
	deliversUnread
	deliversThenDies
	deliversThenTimesOut
	reads
	deliversLate
	dies
	timesOut
	restarts
	forgets
	bumps
	lowers
	notices
	expires
	ticks
)

// outcome is what a search found.
type outcome struct {
	states, transitions, depth int
	complete                   bool // every reachable state was searched
	took                       time.Duration
	broken                     string // the promise that was broken, "" for none
	trace                      []string
}

func (o outcome) String() string {
	how := "all of them"
	if !o.complete {
		how = "as far as it went"
	}
	if o.broken != "" {
		how = fmt.Sprintf("%s after %d steps", o.broken, len(o.trace))
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %v: %s", o.states, o.transitions, o.depth,
		o.took.Round(time.Millisecond), how)
}

// explore searches all reachable states breadth first, up to limit states, and stops where a
// promise is broken. States that differ only in the names of clients or nodes count as one. A state
// is remembered by a hash of 64 bits: the chance that two of some million states share a hash, and
// one is skipped, is about one in a million.
func (m *setup) explore(limit int) outcome {
	begun := time.Now()
	seed := maphash.MakeSeed()
	type origin struct {
		from int32
		by   step
	}
	var start state
	found := outcome{states: 1}
	origins := []origin{{from: -1}}
	seen := map[uint64]struct{}{m.key(seed, &start): {}}
	level, first := []state{start}, 0 // first is the index, in origins, of the first state of the level

	last := -1 // index of the state that breaks a promise
	for len(level) > 0 && last < 0 && len(origins) < limit {
		var next []state
		nextFirst := len(origins)
		for i := range level {
			m.successors(&level[i], func(by step, s *state) {
				found.transitions++
				m.reduce(s)
				key := m.key(seed, s)
				if _, known := seen[key]; known || last >= 0 {
					return
				}
				seen[key] = struct{}{}
				origins = append(origins, origin{int32(first + i), by})
				next = append(next, *s)
				if found.broken = m.broken(s); found.broken != "" {
					last = len(origins) - 1
				}
			})
			if last >= 0 {
				break
			}
		}
		level, first = next, nextFirst
		found.depth++
	}
	found.states, found.complete = len(origins), len(level) == 0
	var steps []step
	for i := last; i > 0; i = int(origins[i].from) {
		steps = append(steps, origins[i].by)
	}
	slices.Reverse(steps)
	found.trace = m.replay(steps)
	found.took = time.Since(begun)
	return found
}

// key is the same for states that differ only in which client or node is which.
func (m *setup) key(seed maphash.Seed, s *state) uint64 {
	least := ^uint64(0)
	for _, order := range orders[m.clients()] {
		if m.attempts[order[0]] != m.attempts[0] || m.attempts[order[1]] != m.attempts[1] {
			continue // they differ in more than names
		}
		all := struct {
			nodes [nodes]uint64
			world
		}{world: s.world}
		for c, to := range order {
			for number := range uint8(maxAttempts) {
				all.attempts[ownerOf(to, number)-1] = s.attempts[ownerOf(uint8(c), number)-1]
			}
		}
		for i := range s.nodes {
			from := &s.nodes[i]
			n := *from
			if from.owner != 0 {
				n.owner = ownerOf(order[from.owner.client()], from.owner.number())
			}
			for c, to := range order {
				n.links[to] = from.links[c]
				for number := range uint8(maxAttempts) {
					n.tombstone[ownerOf(to, number)-1] = from.tombstone[ownerOf(uint8(c), number)-1]
				}
			}
			all.nodes[i] = maphash.Comparable(seed, n)
		}
		slices.Sort(all.nodes[:])
		least = min(least, maphash.Comparable(seed, all))
	}
	return least
}

// reduce clears what does not influence any later state, so that more states are the same.
func (m *setup) reduce(s *state) {
	for j := range s.attempts {
		a, o := &s.attempts[j], owner(j+1)
		if a.phase == unborn {
			continue
		}
		var carried kinds // by requests that may still arrive
		for i := range s.nodes {
			l := &s.nodes[i].links[o.client()]
			v := &l.votes[o.number()]
			here := l.mayArrive[o.number()]
			for k, r := range l.queue {
				switch {
				case r == 0 || r.number() != o.number():
				case r.kind() == release && !m.honest:
					l.queue[k] = 0 // it has the effect of an expiry
				default:
					here |= setOf(r.kind())
				}
			}
			if !m.honest {
				l.closeGaps()
			}
			if !m.honest && a.phase > settling && v.awaits == acquire && v.reply != silence {
				v.awaits, v.reply = nothing, silence // a late grant counts for the deadline only
			}
			if v.awaits == nothing {
				v.offer = 0
			}
			if a.phase >= holding {
				v.answer, v.token, v.read, v.raised = silence, 0, 0, 0
				if !here.has(raise) {
					v.resent = 0
				}
			}
			carried |= here
		}
		if a.phase == over {
			if !carried.has(acquire) {
				a.seed = 0
			}
			if carried&(setOf(raise)|setOf(renew)|setOf(extend)|setOf(repair)) == 0 {
				a.token = 0
			}
			a.floor, a.offer = 0, 0
		}
		if a.phase >= holding {
			a.floor = 0
		}
		if m.keeps(countFromOwnSend) {
			a.offer = 0
		}
		if !m.asksLater(s, o) {
			a.first = 0
		}
	}
}

// asksLater reports whether an attempt has a second wave that it may yet ask.
func (m *setup) asksLater(s *state, o owner) bool {
	for i := range s.nodes {
		if s.vote(o, i).unsent != allSent {
			return true
		}
	}
	return false
}

func (l *link) closeGaps() {
	k := 0
	for _, r := range l.queue {
		if r != 0 {
			l.queue[k] = r
			k++
		}
	}
	clear(l.queue[k:])
}

// orders are the permutations of the clients' names.
var orders = [...][][]uint8{
	2: {{0, 1}, {1, 0}},
	3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
}

// replay repeats the steps and describes each.
func (m *setup) replay(steps []step) (lines []string) {
	var s state
	for _, by := range steps {
		var next state
		m.successors(&s, func(other step, n *state) {
			if other == by {
				next = *n
				m.reduce(&next)
			}
		})
		lines = append(lines, fmt.Sprintf("%-62s %s", by.describe(m, &s, &next), m.show(&next)))
		s = next
	}
	return lines
}

var words = [...]string{acquire: "acquire", raise: "write-back", renew: "renewal", extend: "extension",
	repair: "repair", release: "release"}

func (m *setup) name(o owner) string {
	if o == 0 {
		return "–"
	}
	return fmt.Sprintf("%c%d", 'A'+o.client(), o.number()+1)
}

// describe tells a step in words.
func (by step) describe(m *setup, before, after *state) string {
	o, at := ownerOf(by.client, by.number), by.node+1
	attempt, what := m.name(o), words[by.kind]
	switch by.does {
	case begins:
		if id := m.id(o); id != o {
			return fmt.Sprintf("%s asks every node under the id of %s", attempt, m.name(id))
		}
		return attempt + " asks every node"
	case beginsWithout:
		return fmt.Sprintf("%s asks every node but %d", attempt, at)
	case asksOn:
		return fmt.Sprintf("%s asks %d, of its second wave", attempt, at)
	case commits:
		if after.attempts[o-1].phase != holding {
			return attempt + " reads the clock: too late"
		}
		if m.tokens {
			return fmt.Sprintf("%s holds, with token %d", attempt, after.attempts[o-1].token)
		}
		return attempt + " holds"
	case watches:
		return fmt.Sprintf("%s sends %ss, and repairs where it has no grant", attempt, what)
	case ends:
		return attempt + " gives up or unlocks: releases"
	case reads:
		return fmt.Sprintf("%s reads the reply to its %s from %d%s", attempt, what, at, m.became(before, after, o))
	case dies:
		return fmt.Sprintf("the connection %c–%d dies; awaited requests are resent", 'A'+by.client, at)
	case timesOut:
		return fmt.Sprintf("%d does not answer %c in time", at, 'A'+by.client)
	case restarts:
		return fmt.Sprintf("%d restarts with its data", at)
	case forgets:
		return fmt.Sprintf("%d restarts without its data", at)
	case bumps:
		return fmt.Sprintf("a neighbour is granted on %d, and counts up", at)
	case lowers:
		return fmt.Sprintf("a neighbour writes its lower token on %d", at)
	case notices:
		return fmt.Sprintf("a client notices that %d restarted", at)
	case expires:
		return fmt.Sprintf("the lease ends on %d", at)
	case ticks:
		return "a tick passes"
	}
	r := request(by.kind) | numbered(by.number)
	scratch := *before
	answer, _ := m.carryOut(&scratch, &scratch.nodes[by.node], by.client, r)
	line := fmt.Sprintf("%d runs %s's %s", at, attempt, what)
	if by.does == deliversLate {
		line += ", which arrives late"
	}
	if answer == no {
		line += ": no"
	}
	switch by.does {
	case delivers:
		line += m.became(before, after, o)
	case deliversUnread:
		line += "; the reply is not read yet"
	case deliversThenDies:
		line += "; the connection dies before the reply, the request is resent"
	case deliversThenTimesOut:
		line += "; there is no reply in time"
	}
	return line
}

// became tells what a reply led to.
func (m *setup) became(before, after *state, o owner) string {
	was, is := before.attempts[o-1].phase, after.attempts[o-1].phase
	switch {
	case was == is:
		return ""
	case is == settling && m.tokens:
		return fmt.Sprintf("; the quorum is reached, token %d", after.attempts[o-1].token)
	case is == settling:
		return "; the quorum is reached"
	case is == over:
		return fmt.Sprintf("; %s fails: releases", m.name(o))
	}
	return fmt.Sprintf("; %s holds again", m.name(o))
}

// show is a state on one line: each node's owner, time to live and counter, then each holder and
// its time left.
func (m *setup) show(s *state) string {
	var b strings.Builder
	for i := range s.nodes {
		n := &s.nodes[i]
		fmt.Fprintf(&b, "%d:%s", i+1, m.name(n.owner))
		if m.honest && n.owner != 0 {
			fmt.Fprintf(&b, " for %d", n.ttl)
		}
		if m.tokens {
			fmt.Fprintf(&b, " c%d", n.counter)
		}
		if n.quarantine > 0 {
			b.WriteString(" quarantined")
		}
		b.WriteString("  ")
	}
	for j := range s.attempts {
		if o := owner(j + 1); s.attempts[j].phase == holding {
			fmt.Fprintf(&b, "| %s holds ", m.name(o))
			if m.honest {
				fmt.Fprintf(&b, "for %d ", m.deadline(s, o))
			}
		}
	}
	return b.String()
}
