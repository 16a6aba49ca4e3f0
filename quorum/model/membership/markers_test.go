package membership

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/visited"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	tick = 10 * time.Second
	now  = 1000 * tick // the clock of all masters in every state: instants are moved instead
)

// markers are the texts of markers, and what the shipped code says of them.
type markers struct {
	setup     *setup
	parsed    []*scripts.List // setup.lists
	texts     []string
	number    map[string]marker
	aging     map[marker]marker
	in        map[atNode][maxLists]lets
	open      map[atNode]bool
	processes map[atNode]string
	views     map[viewKey]*membership.View
	futures   futures
}

// atNode is a master's number, its process and its marker, packed: a map of numbers is faster.
type atNode uint32

func keyOf(n int, process uint8, m marker) atNode {
	return atNode(n)<<24 | atNode(process)<<16 | atNode(m)
}

// lets is what a master does for clients of a list.
type lets uint8

const (
	refuses lets = iota
	renews
	grants
)

func newMarkers(s *setup) *markers {
	var parsed []*scripts.List
	for _, letters := range s.lists {
		parsed = append(parsed, listOf(letters))
	}
	return &markers{setup: s, parsed: parsed, texts: []string{""}, number: map[string]marker{"": 0}, aging: map[marker]marker{},
		in: map[atNode][maxLists]lets{}, open: map[atNode]bool{}, processes: map[atNode]string{}, views: map[viewKey]*membership.View{}, futures: newFutures()}
}

func (t *markers) intern(text string) marker {
	return visited.Once(t.number, text, func() marker {
		if len(t.texts) > math.MaxUint16 {
			panic("too many markers")
		}
		t.texts = append(t.texts, text)
		return marker(len(t.texts) - 1)
	})
}

func (t *markers) lease() time.Duration { return time.Duration(t.setup.maxLease) * tick }

func (t *markers) process(n int, process uint8) scripts.Process {
	return scripts.Process{Run: fmt.Sprint("run-", process), MaxLease: t.lease(), Member: nameOf(rune(t.setup.names[n]))}
}

// processText is Process.String, remembered.
func (t *markers) processText(n int, process uint8) string {
	return visited.Once(t.processes, keyOf(n, process, 0), func() string { return t.process(n, process).String() })
}

// parse reads a master's first marker, of its own process: "abc", "abc#2", "abc>abd#2" while a change
// is announced, "?abc" for a claim; "old:abc" for an earlier process's.
func (t *markers) parse(n int, text string) marker {
	if text == "" {
		return 0
	}
	text, isOld := strings.CutPrefix(text, "old:")
	text, isClaim := strings.CutPrefix(text, "?")
	lists, generation, _ := strings.Cut(text, "#")
	members, next, _ := strings.Cut(lists, ">")
	m := scripts.Marker{Process: t.process(n, 0), Generation: 1, Claimed: isClaim, Members: listOf(members), Next: listOf(next)}
	if isClaim {
		m.Generation = 0
	}
	if isOld {
		m.Run = "run-old"
	}
	if generation != "" {
		fmt.Sscan(generation, &m.Generation)
	}
	return t.intern(m.String())
}

// aged is the marker a tick later: its instants are a tick nearer. Those longer ago than the window
// are alike. No mark can tell them apart, because what was read then is refused.
func (t *markers) aged(old marker) marker {
	if old == 0 {
		return 0
	}
	return visited.Once(t.aging, old, func() marker {
		m := t.read(old)
		for _, instant := range []*time.Duration{&m.Admitted, &m.Change} {
			if *instant -= tick; *instant < now-tick*time.Duration(t.setup.window) {
				*instant = 0
			}
		}
		return t.intern(m.String())
	})
}

func (t *markers) read(m marker) scripts.Marker {
	read, err := scripts.ParseMarker(t.texts[m])
	if err != nil {
		panic(err)
	}
	return read
}

// ahead is the marker after the clock was set back by a max lease and a tick: so much further ahead are
// its instants. Those long ago stay so, and waits that are over may begin again.
func (t *markers) ahead(old marker) marker {
	if old == 0 {
		return 0
	}
	m := t.read(old)
	for _, instant := range []*time.Duration{&m.Admitted, &m.Change} {
		if *instant > 0 {
			*instant += t.lease() + tick
		}
	}
	return t.intern(m.String())
}

// accepts is what the master does for clients of each list, by the programs of acquire and renew.
func (t *markers) accepts(n int, process uint8, m marker) [maxLists]lets {
	return visited.Once(t.in, keyOf(n, process, m), func() (in [maxLists]lets) {
		for l, letters := range t.setup.lists {
			if !strings.Contains(letters, t.setup.names[n:n+1]) {
				continue
			}
			admitted, isItsOwn, ok := fakeredis.Accepts(t.texts[m], t.process(n, process).Expected(t.parsed[l]))
			switch {
			case !ok:
			case isItsOwn && millis(admitted) <= now:
				in[l] = grants
			default:
				in[l] = renews
			}
		}
		return in
	})
}

func millis(text string) time.Duration {
	var ms int64
	fmt.Sscan(text, &ms)
	return time.Duration(ms) * time.Millisecond
}

// viewKey is a master's number, what it showed and the age of the look's first reply, packed.
type viewKey uint64

// view is what the code makes of a record, in a look whose first reply is that old; nil for silence.
func (t *markers) view(n int, r record, first int) *membership.View {
	if r == silent {
		return nil
	}
	return visited.Once(t.views, viewKey(n)<<48|viewKey(first)<<32|viewKey(r), func() *membership.View {
		ago := func(age int) time.Duration { return time.Duration(age) * tick }
		return membership.Read(scripts.Seen{Marker: t.texts[r.marker()], Now: now - ago(r.age()), Process: t.process(n, r.process())},
			ago(first-r.age()))
	})
}

// write is a mark for one master.
type write struct {
	node int
	args []string
}

func (t *markers) writeOf(n int, call scripts.Call) write {
	_, args := call.Command(nil, true, scripts.ConnArgs{Process: ""})
	w := write{node: n}
	for _, a := range args[3:] { // behind the source, the number of keys and the key
		w.args = append(w.args, fmt.Sprint(a))
	}
	return w
}

// carryOut is mark.lua on a master. It returns false when the mark is not written.
func (t *markers) carryOut(by write, process uint8, at marker) (marker, bool) {
	by.args[len(by.args)-1] = t.processText(by.node, process)
	text, written := fakeredis.MarkText(t.texts[at], by.args, now.Milliseconds())
	if !written {
		return at, false
	}
	return t.intern(text), true
}

// plan is the marks that a client of a list writes after such a look.
func (t *markers) plan(l int, members []int, views [maxNodes]record) (marks []write) {
	client := membership.Client{List: t.parsed[l], Found: t.setup.found, Exists: t.setup.exists,
		Quarantine: func(int) time.Duration { return t.lease() }}
	first, seen := oldest(views[:]), make([]*membership.View, len(members))
	for i, n := range members {
		seen[i] = t.view(n, views[n], first)
	}
	for _, m := range client.Plan(seen) {
		marks = append(marks, t.writeOf(members[m.Node], m.Call))
	}
	return marks
}
