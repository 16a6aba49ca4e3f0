package membership

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// step is one event of the trace.
type step struct {
	does         action
	who, at, how uint8
}

type action uint8

const (
	acquires action = iota
	renews
	releases
	marks
	sends
	arrives
	looks
	claims
	confirms
	givesUp
	prepares
	reads
	sets
	stops
	restarts
	forgets
	ticks
)

// outcome is what a search found.
type outcome struct {
	states, transitions, depth int
	complete                   bool // every reachable state was searched
	took                       time.Duration
	trace                      []string // to two holders
}

func (o outcome) String() string {
	how := "all of them"
	if !o.complete {
		how = "as far as it went"
	}
	if o.trace != nil {
		how = fmt.Sprintf("two hold the lock after %d steps", len(o.trace))
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %v: %s", o.states, o.transitions, o.depth,
		o.took.Round(time.Millisecond), how)
}

// explore searches breadth first, up to limit states, so the trace that it finds is a shortest one.
// A state is remembered by a hash of 64 bits.
func (m *setup) explore(limit int) outcome {
	begun := time.Now()
	seed := maphash.MakeSeed()
	type origin struct {
		from int32
		by   step
	}
	start := m.first()
	found := outcome{states: 1}
	origins := []origin{{from: -1}}
	seen := map[uint64]struct{}{maphash.Comparable(seed, start): {}}
	level, first := []state{start}, 0 // first is the index, in origins, of the level

	last := -1 // index of a state in which two hold
	for len(level) > 0 && last < 0 && len(origins) < limit {
		var next []state
		nextFirst := len(origins)
		for i := range level {
			m.successors(&level[i], func(by step, s *state) {
				found.transitions++
				key := maphash.Comparable(seed, *s)
				if _, known := seen[key]; known || last >= 0 {
					return
				}
				seen[key] = struct{}{}
				origins = append(origins, origin{int32(first + i), by})
				next = append(next, *s)
				if m.holds(s, 0) && m.holds(s, 1) {
					last = len(origins) - 1
				}
			})
			if last >= 0 || len(origins) >= limit {
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

func (m *setup) first() (s state) {
	for n := range s.nodes {
		s.nodes[n].marker = m.start[n]
	}
	for l, mine := range m.lists {
		if mine == m.once {
			s.lists[l].known[0] = carry(mine, 1, 0)
			for _, n := range mine.nodes() {
				s.lists[l].fresh[n] = m.maxLease
			}
		}
	}
	m.learn(&s)
	return s
}

// replay repeats the steps and describes each.
func (m *setup) replay(steps []step) (lines []string) {
	s := m.first()
	for _, by := range steps {
		var next state
		m.successors(&s, func(other step, n *state) {
			if other == by {
				next = *n
			}
		})
		lines = append(lines, fmt.Sprintf("%-58s %s", m.describe(by, &s), m.show(&next)))
		s = next
	}
	return lines
}

func (l list) String() string {
	var b strings.Builder
	for _, n := range l.nodes() {
		fmt.Fprint(&b, n+1)
	}
	return b.String()
}

func (x marker) String() string {
	if x == blank {
		return "blank"
	}
	text := x.members().String()
	if x.next() != 0 {
		text += "→" + x.next().String()
	}
	if x.generation() > 0 {
		text += fmt.Sprintf("#%d", x.generation())
	}
	if x.claimed() {
		text += "?"
	}
	return text
}

func (m *setup) describe(by step, s *state) string {
	at, name := by.at+1, 'A'+rune(by.who)
	switch by.does {
	case acquires:
		return fmt.Sprintf("%c(%v) acquires %d", name, m.clients[by.who].names, at)
	case renews:
		return fmt.Sprintf("%c(%v) renews on %d", name, m.clients[by.who].names, at)
	case releases:
		return fmt.Sprintf("%c releases", name)
	case prepares:
		return fmt.Sprintf("operator prepares the new member for %v", m.changes[by.at])
	case reads:
		return fmt.Sprintf("operator reads for %v: %v", m.changes[by.at], phase(by.how))
	case sets:
		n := m.changes[by.at].to.nodes()[s.ops[by.who].index]
		return fmt.Sprintf("operator writes %d: %v %v", n+1, phase(by.how), m.changes[by.at])
	case stops:
		return "operator stops"
	case restarts:
		return fmt.Sprintf("%d restarts with its data", at)
	case forgets:
		return fmt.Sprintf("%d forgets", at)
	case ticks:
		return "a tick passes"
	case marks:
		return fmt.Sprintf("a client of %v marks %d", m.lists[by.who], at)
	case sends:
		return fmt.Sprintf("a client of %v sends a mark to %d", m.lists[by.who], at)
	case arrives:
		return fmt.Sprintf("that mark of %v arrives on %d", m.lists[by.who], at)
	}
	what := map[action]string{looks: "looks at", claims: "claims", confirms: "confirms", givesUp: "gives up"}[by.does]
	if by.does == givesUp {
		at = 0
	}
	return strings.TrimSuffix(fmt.Sprintf("a client of %v %s %d", m.lists[by.who], what, at), " 0")
}

func (by change) String() string { return fmt.Sprintf("%v→%v", by.from, by.to) }

func (p phase) String() string {
	return [...]string{"", "may it begin", "next", "may it be committed", "commit", "may it be aborted", "abort"}[p]
}

// show is a state on one line: each node's marker and owner, then the holders.
func (m *setup) show(s *state) string {
	var b strings.Builder
	for n := range s.nodes {
		x := &s.nodes[n]
		fmt.Fprintf(&b, "%d:%v", n+1, x.marker)
		if x.quarantine > 0 {
			fmt.Fprintf(&b, " q%d", x.quarantine)
		}
		if x.wait > 0 {
			fmt.Fprintf(&b, " w%d", x.wait)
		}
		if x.owner != 0 {
			fmt.Fprintf(&b, " %c", 'A'+x.owner-1)
		}
		b.WriteString("  ")
	}
	for c := range m.clients {
		if m.holds(s, c) {
			fmt.Fprintf(&b, "| %c holds ", 'A'+c)
		}
	}
	return b.String()
}

func event(does action, who, at, how int) step { return step{does, uint8(who), uint8(at), uint8(how)} }
