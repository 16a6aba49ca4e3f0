package membership

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/visited"
	"github.com/quorumlock/quorumlock/scripts"
)

// event is one step of a trace.
type event struct {
	does action
	who  uint8 // a command's place, or a list
	at   uint8 // a master
	how  uint8
}

type action uint8

const (
	passes action = iota
	forgets
	restarts
	setsBack
	marks
	starts
	writes
	stops
	reads
	raises
	issues
	votes
	commits
)

// command is what an operator runs.
type command struct {
	words string
	looks []int // the masters that it looks at
	first look  // before any of them shows what it does
	begin func() *change.Procedure
}

func (w *world) parseCommand(words string) command {
	verb, rest, _ := strings.Cut(words, " ")
	given, to, _ := strings.Cut(rest, " ")
	c, list := command{words: words}, listOf(given)
	switch verb {
	case "add", "remove": // from one list to another
		by, err := change.New(list, listOf(to))
		if err != nil {
			return command{words: words, begin: nil} // it refuses; a mutant may not
		}
		c.begin = by.Announce
	case "commit":
		c.begin = func() *change.Procedure { return change.Commit(list) }
	case "abort":
		c.begin = func() *change.Procedure { return change.Abort(list) }
	}
	for _, name := range c.begin().Next().Names {
		c.looks = append(c.looks, w.places(name)[0])
	}
	return c
}

// trial tries the events in a state, one after the other.
type trial struct {
	w    *world
	from *state
	to   state
	use  func(event, *state)
}

// after changes the state. Were it a func value, each event's change would be allocated.
func (t *trial) after(by event, change func(*state)) {
	t.to = *t.from
	change(&t.to)
	t.w.settle(&t.to, t.from)
	t.use(by, &t.to)
}

// successors calls use with each state that may follow.
func (w *world) successors(s *state, use func(event, *state)) {
	try := &w.trial
	try.w, try.from, try.use = w, s, use
	try.after(event{does: passes}, w.tick)
	for n := range len(w.names) {
		at := uint8(n)
		if int(s.forgot) < w.setup.forgets && s.nodes[n].marker != 0 {
			try.after(event{does: forgets, at: at}, func(s *state) { s.forgot++; w.forget(s, n) })
		}
		if int(s.restarts) < w.setup.restarts && s.nodes[n].marker != 0 {
			for how, loses := range []bool{false, true} {
				try.after(event{does: restarts, at: at, how: uint8(how)}, func(s *state) { s.restarts++; w.restart(s, n, loses) })
			}
		}
		if int(s.back) < w.setup.back && w.ahead(s.nodes[n].marker) != s.nodes[n].marker {
			try.after(event{does: setsBack, at: at}, func(s *state) { s.back++; w.setBack(s, n) })
		}
	}
	w.clients(s, try)
	for i := range w.atOnce {
		if s.ops[i].rest == 0 {
			w.begin(s, i, try)
			break
		}
		if w.window > 0 { // else its time is over with this tick
			try.after(event{does: stops, who: uint8(i)}, func(s *state) { s.drop(i) })
		}
		w.proceed(s, i, try)
	}
	if w.tokens > 0 {
		w.issue(s, try)
	}
}

// clients has a client of each list mark, by anything that the masters have shown.
func (w *world) clients(s *state, try *trial) {
	for l, members := range w.lists {
		if !slices.ContainsFunc(members, func(n int) bool { return w.isOpen(n, &s.nodes[n]) }) {
			continue
		}
		for i, m := range w.marksOf(s, l, members) {
			try.after(event{marks, uint8(l), uint8(m.node), uint8(i)}, func(s *state) { w.write(s, m.node, m.to) })
		}
	}
}

// marking is a marker that a master gets.
type marking struct {
	node int
	to   marker
}

// marksOf returns what clients of a list may write now.
func (w *world) marksOf(s *state, l int, members []int) []marking {
	return visited.Once(w.changes, w.sceneOf(s, l, members), func() (done []marking) {
		w.looks(s, members, len(members), &w.firsts[l], func(views [maxNodes]record, at *look) {
			if !at.known {
				at.known, at.plan = true, w.plan(l, members, views)
			}
			for _, m := range at.plan {
				x := &s.nodes[m.node]
				to, written := w.carryOut(m, x.process, x.marker)
				if by := (marking{m.node, to}); written && !slices.Contains(done, by) {
					done = append(done, by)
				}
			}
		})
		return done
	})
}

// scene is all that some masters show, to clients of a list or to a command.
type scene struct {
	of    uint32
	shown [maxNodes][1 + maxShown]record
}

func (w *world) sceneOf(s *state, of int, at []int) scene {
	key := scene{of: uint32(of)}
	for _, n := range at {
		x := &s.nodes[n]
		key.shown[n][0] = recordOf(x.process, x.marker, 0)
		copy(key.shown[n][1:], x.shown[:])
	}
	return key
}

// isOpen reports whether clients may mark a master: it is blank, or claimed.
func (w *world) isOpen(n int, x *node) bool {
	return visited.Once(w.open, keyOf(n, x.process, x.marker), func() bool {
		v := w.view(n, recordOf(x.process, x.marker, 0), 0)
		return v.IsBlank() || v.Marker().Claimed
	})
}

// look is what some masters have shown, in the order in which a command or a list's clients look at them, and what
// follows from it if these were all. Most scenes repeat what others began with.
type look struct {
	next  map[record]*look // by what the next master shows
	known bool
	rest  future  // of a command
	plan  []write // of clients
}

func (l *look) shows(r record) *look {
	next := l.next[r]
	if next == nil {
		if next = new(look); l.next == nil {
			l.next = map[record]*look{}
		}
		l.next[r] = next
	}
	return next
}

// looks calls use with each way in which a look at those masters may turn out, with at most `silences`
// silent masters.
func (w *world) looks(s *state, at []int, silences int, first *look, use func([maxNodes]record, *look)) {
	var views [maxNodes]record
	for n := range views {
		views[n] = silent
	}
	var choose func(i, silences int, l *look)
	choose = func(i, silences int, l *look) {
		if i == len(at) {
			use(views, l)
			return
		}
		n := at[i]
		x := &s.nodes[n]
		views[n] = recordOf(x.process, x.marker, 0)
		choose(i+1, silences, l.shows(views[n]))
		for _, r := range x.shown {
			if r != silent && (r.process() != x.process || r.marker() != x.marker) {
				views[n] = r
				choose(i+1, silences, l.shows(r))
			}
		}
		if views[n] = silent; silences > 0 {
			choose(i+1, silences-1, l.shows(silent))
		}
	}
	choose(0, silences, first)
}

// begin starts a command: it looks, and makes its first step.
func (w *world) begin(s *state, i int, try *trial) {
	for c := range w.cmds {
		for _, b := range w.beginnings(s, c) {
			try.after(event{starts, uint8(i), uint8(c), b.how}, func(s *state) {
				s.ops[i] = op{rest: b.rest}
				if b.marks {
					w.write(s, b.mark.node, b.mark.to)
					for w.whole && s.ops[i].rest != 0 {
						w.writeNext(s, i)
					}
					s.tidy(i)
				}
			})
		}
	}
}

// beginning is a command's first step after a look.
type beginning struct {
	how   uint8   // the number of the run
	mark  marking // if it marks
	marks bool
	rest  future // behind the mark, or else the step is yet to be made
}

// beginnings returns how a command may begin now.
func (w *world) beginnings(s *state, c int) []beginning {
	if w.cmds[c].begin == nil {
		return nil
	}
	return visited.Once(w.futures.begun, w.sceneOf(s, c, w.cmds[c].looks), func() (all []beginning) {
		var may []future
		w.looks(s, w.cmds[c].looks, w.silent, &w.cmds[c].first, func(views [maxNodes]record, at *look) {
			if !at.known {
				at.known, at.rest = true, w.foresee(run{command: c, views: views})
			}
			if at.rest != 0 && !slices.Contains(may, at.rest) {
				may = append(may, at.rest)
			}
		})
		for how, rest := range may {
			b, next := beginning{how: uint8(how), rest: rest}, &w.futures.all[rest]
			if next.do == change.Write {
				x := &s.nodes[next.write.node]
				b.mark.node, b.rest = next.write.node, next.no
				if b.mark.to, b.marks = w.carryOut(next.write, x.process, x.marker); b.marks {
					b.rest = next.yes
				}
			}
			if b.marks || b.rest != 0 {
				all = append(all, b)
			}
		}
		return all
	})
}

// tidy drops a command that is at its end.
func (s *state) tidy(i int) {
	if s.ops[i].rest == 0 {
		s.drop(i)
	}
}

// drop ends a command, and moves the one behind it up.
func (s *state) drop(i int) {
	copy(s.ops[i:], s.ops[i+1:])
	s.ops[maxOps-1] = op{}
}

// proceed makes a command's next step.
func (w *world) proceed(s *state, i int, try *trial) {
	next := &w.futures.all[s.ops[i].rest]
	if next.do != change.Write {
		w.pass(i, next, try)
		return
	}
	try.after(event{does: writes, who: uint8(i), at: uint8(next.write.node)}, func(s *state) {
		w.writeNext(s, i)
		s.tidy(i)
	})
}

// writeNext carries out a command's next mark.
func (w *world) writeNext(s *state, i int) {
	next := &w.futures.all[s.ops[i].rest]
	x := &s.nodes[next.write.node]
	to, written := w.carryOut(next.write, x.process, x.marker)
	s.ops[i].rest = next.no
	if written {
		w.write(s, next.write.node, to)
		s.ops[i].rest = next.yes
	}
}

func (w *world) describe(by event, s *state) string {
	name := func() string { return w.names[by.at : by.at+1] }
	command := func() string { return w.cmds[w.futures.all[s.ops[by.who].rest].run.command].words }
	switch by.does {
	case passes:
		return "a tick passes"
	case forgets:
		return name() + " forgets"
	case restarts:
		return name() + " restarts with its marker" + []string{"", ", and without its last leases"}[by.how]
	case setsBack:
		return name() + "'s clock is set back"
	case marks:
		return fmt.Sprintf("a client of %s marks %s", w.setup.lists[by.who], name())
	case starts:
		return fmt.Sprintf("(%d) %s looks, and begins", by.who+1, w.cmds[by.at].words)
	case stops:
		return fmt.Sprintf("(%d) %s stops", by.who+1, command())
	case writes:
		return fmt.Sprintf("(%d) %s writes %s", by.who+1, command(), name())
	case reads, raises:
		return fmt.Sprintf("(%d) %s %s the counters", by.who+1, command(), map[action]string{reads: "reads", raises: "raises"}[by.does])
	case issues:
		return fmt.Sprintf("a client of %s locks and unlocks", w.setup.lists[by.who])
	case votes:
		return fmt.Sprintf("a client of %s gets its votes", w.setup.lists[by.who])
	}
	return fmt.Sprintf("the client of %s writes its token back, and holds", w.setup.lists[s.attempt.list-1])
}

// display is a state on one line.
func (w *world) display(s *state) string {
	var b strings.Builder
	for n := range len(w.names) {
		x := &s.nodes[n]
		fmt.Fprintf(&b, "%s:%s", w.names[n:n+1], w.brief(n, x))
		if w.tokens > 0 {
			fmt.Fprintf(&b, " %d", x.counter)
		}
		b.WriteString("  ")
	}
	return b.String()
}

// brief is a marker as parse has it, with what is left of the quarantine (q) and of the wait (w).
func (w *world) brief(n int, x *node) string {
	v := w.view(n, recordOf(x.process, x.marker, 0), 0)
	m := v.Marker()
	letters := func(l *scripts.List) string { return strings.Join(l.Names(), "") }
	text := letters(m.Members)
	if m.Next.Len() > 0 {
		text += ">" + letters(m.Next)
	}
	if text == "" {
		return "blank"
	}
	if m.Claimed {
		text = "?" + text
	}
	if !v.IsMarked() {
		text = "old:" + text
	}
	text += fmt.Sprint("#", m.Generation)
	if left := v.Quarantine(); left > 0 {
		text += fmt.Sprint(" q", int(left/tick))
	}
	if left := change.Waits(v); left > 0 {
		text += fmt.Sprint(" w", int(left/tick))
	}
	return text
}
