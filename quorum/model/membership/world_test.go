package membership

import (
	"slices"
	"unicode"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	maxNodes = 6
	maxLists = 5
	maxShown = 3 // more would be forgotten: see show
	maxOps   = 2
)

// setup is what is searched.
type setup struct {
	names    string   // of the masters, one letter each; C is database 1 of the process of c, and 3 has it with a prefix
	start    []string // each master's marker, see parse; missing ones are blank
	lists    []string // whose clients lock and mark
	found    bool     // clients may found a deployment
	exists   bool     // clients were told that it exists
	commands []string // that an operator may run, at any moment and any number of times
	atOnce   int      // how many commands run at once
	whole    bool     // a command makes all its marks at one instant
	forgets  int      // how often a master loses its data
	restarts int      // how often a master restarts with its data
	back     int      // how often a master's clock is set back
	silent   int      // how many masters may be silent in one look
	maxLease int      // in ticks
	tokens   int      // how many tokens are issued; 0 to search for two holders
	window   int      // for how many ticks clients and commands may use what a master showed; 0 for half a max lease
}

// marker is the number of a marker's text, of 16 bits; 0 for none. It has 32 so that a node, which is hashed, has no padding.
type marker uint32

// record is what a master showed at some instant: its process, its marker, and how many ticks ago it
// was last so.
type record uint32

// silent is the record of a look that got no answer.
const silent = record(1<<32 - 1)

func recordOf(process uint8, at marker, age int) record {
	return record(process)<<24 | record(age)<<16 | record(at)
}

func (r record) process() uint8 { return uint8(r >> 24) }
func (r record) marker() marker { return marker(r & (1<<16 - 1)) }
func (r record) age() int       { return int(r >> 16 & 255) }

// node is one master.
type node struct {
	// left is for how long a lease of a client of each list may still run, ghost for how long one may
	// from before the master forgot.
	left, ghost [maxLists]uint8
	counter     uint8
	process     uint8
	marker      marker
	shown       [maxShown]record // what it showed before, within the window, latest first; silent for none
}

// op is a command that has looked, and writes.
type op struct {
	rest  future // what it may still do; 0 for no command
	token uint8  // the highest that its pass has read
}

// state is everything at one instant.
type state struct {
	nodes    [maxNodes]node
	ops      [maxOps]op
	forgot   uint8
	restarts uint8
	back     uint8
	issued   uint8 // how many tokens
	top      uint8 // the highest token
	attempt  attempt
}

// attempt is one that has its votes, and writes its token back later.
type attempt struct {
	list  uint8 // counts from 1; 0 for none
	votes uint8 // bit by node
	token uint8
	age   uint8
}

// world is a setup, ready to be searched.
type world struct {
	setup
	*markers
	lists   [][]int // the members of each list, by their places
	cmds    []command
	firsts  []look // by list: its clients' look before any master shows what it does
	changes map[scene][]marking
	trial   trial
}

func newWorld(s setup) *world {
	if s.window == 0 {
		s.window = (s.maxLease - 1) / 2
	}
	if s.atOnce == 0 {
		s.atOnce = 1
	}
	w := &world{setup: s, changes: map[scene][]marking{}}
	w.markers = newMarkers(&w.setup)
	for _, list := range s.lists {
		w.lists = append(w.lists, w.places(list))
	}
	w.firsts = make([]look, len(w.lists))
	for _, words := range s.commands {
		w.cmds = append(w.cmds, w.parseCommand(words))
	}
	return w
}

// places returns the places of masters, by their letters.
func (w *world) places(letters string) (places []int) {
	for _, letter := range letters {
		places = append(places, slices.Index([]rune(w.names), letter))
	}
	return places
}

func listOf(letters string) *scripts.List {
	var names []string
	for _, letter := range letters {
		names = append(names, nameOf(letter))
	}
	return scripts.NewList(names...)
}

func nameOf(letter rune) string {
	switch {
	case unicode.IsUpper(letter):
		return scripts.MemberName(string(unicode.ToLower(letter)), 1, "")
	case unicode.IsDigit(letter):
		return scripts.MemberName(string('a'+letter-'1'), 0, "team")
	}
	return string(letter)
}

func (w *world) first() *state {
	s := &state{}
	for n := range s.nodes {
		x := &s.nodes[n]
		for i := range x.shown {
			x.shown[i] = silent
		}
		if n < len(w.start) {
			x.marker = w.parse(n, w.start[n])
		}
	}
	w.settle(s, &state{})
	return s
}

// settle lets each master give the leases that it can give. Masters that are as before have given theirs.
func (w *world) settle(s, before *state) {
	for n := range len(w.names) {
		x := &s.nodes[n]
		if *x == before.nodes[n] {
			continue
		}
		in := w.accepts(n, x.process, x.marker)
		for l := range w.lists {
			if in[l] == grants || in[l] == renews && x.left[l] > 0 {
				x.left[l] = uint8(w.maxLease)
			}
		}
	}
}

// write puts a marker on a master.
func (w *world) write(s *state, n int, to marker) {
	x := &s.nodes[n]
	if to == x.marker {
		return
	}
	w.show(x)
	x.marker = to
}

// show keeps what the master shows now as what it showed before.
func (w *world) show(x *node) {
	now := recordOf(x.process, x.marker, 0)
	i := slices.IndexFunc(x.shown[:], func(r record) bool { return r.process() == x.process && r.marker() == x.marker })
	if i < 0 {
		i = maxShown - 1
	}
	copy(x.shown[1:i+1], x.shown[:i])
	x.shown[0] = now
}

// forget takes away a master's data: FLUSHALL, or an empty restart, which lets less through.
func (w *world) forget(s *state, n int) {
	x := &s.nodes[n]
	w.write(s, n, 0)
	x.lose()
}

// restart makes a new process that has the marker. It has the leases, or has lost the last writes.
func (w *world) restart(s *state, n int, loses bool) {
	x := &s.nodes[n]
	w.show(x)
	x.process++
	if loses {
		x.lose()
	}
}

// setBack sets back a master's clock, by more than a max lease.
func (w *world) setBack(s *state, n int) { w.write(s, n, w.ahead(s.nodes[n].marker)) }

// lose takes away the leases, which their holders still believe in.
func (x *node) lose() {
	for l := range x.left {
		x.ghost[l] = max(x.ghost[l], x.left[l])
		x.left[l] = 0
	}
	x.counter = 0
}

// tick lets a tick pass.
func (w *world) tick(s *state) {
	for n := range len(w.names) {
		x := &s.nodes[n]
		x.marker = w.aged(x.marker)
		kept := 0
		for _, r := range x.shown {
			if r = w.older(r); r != silent && r.age() <= w.window {
				x.shown[kept] = r
				kept++
			}
		}
		for ; kept < maxShown; kept++ {
			x.shown[kept] = silent
		}
		for l := range x.left {
			x.left[l] -= min(x.left[l], 1)
			x.ghost[l] -= min(x.ghost[l], 1)
		}
	}
	for i := maxOps - 1; i >= 0; i-- {
		if o := &s.ops[i]; o.rest != 0 {
			if o.rest = w.later(o.rest); o.rest == 0 {
				s.drop(i)
			}
		}
	}
	if s.attempt.list > 0 {
		if s.attempt.age++; int(s.attempt.age) >= w.maxLease {
			s.attempt = attempt{}
		}
	}
}

func (t *markers) older(r record) record {
	if r == silent {
		return r
	}
	return recordOf(r.process(), t.aged(r.marker()), r.age()+1)
}

// oldest is the age of the first reply that a look used.
func oldest(views []record) (age int) {
	for _, r := range views {
		if r != silent {
			age = max(age, r.age())
		}
	}
	return age
}

// twoHold reports whether clients of two lists, or two of one, may hold at once, and which.
func (w *world) twoHold(s *state) (one, other int, found bool) {
	for i := range w.lists {
		for j := i; j < len(w.lists); j++ {
			if w.bothHold(s, i, j) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// bothHold deals the masters out: each serves one of the two lists, and one that has forgotten may
// serve both.
func (w *world) bothHold(s *state, i, j int) bool {
	needs, needsToo := len(w.lists[i])/2+1, len(w.lists[j])/2+1
	either := 0
	for n := range len(w.names) {
		x := &s.nodes[n]
		can, canToo := x.left[i]+x.ghost[i] > 0, x.left[j]+x.ghost[j] > 0
		switch {
		case x.left[i] > 0 && x.ghost[j] > 0, x.ghost[i] > 0 && x.left[j] > 0:
			needs, needsToo = needs-1, needsToo-1
		case can && canToo:
			either++
		case can:
			needs--
		case canToo:
			needsToo--
		}
	}
	return max(needs, 0)+max(needsToo, 0) <= either
}
