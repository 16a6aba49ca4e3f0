package lease

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/quorumlock/quorumlock/quorum/model/internal/visited"
)

// outcome is what a search found.
type outcome struct {
	visited.Found[step]
	broken          promise
	trace           []string
	masters, leases int
}

func (o outcome) String() string {
	what := ""
	if o.broken != kept {
		what = ": " + promises[o.broken]
	}
	return fmt.Sprintf("%v%s (%d states of a master, %d of a lease)", o.Found, what, o.masters, o.leases)
}

// explore searches up to limit states. States that differ only in which client or master is which count as one.
func (w *world) explore(limit int) (found outcome) {
	seed := maphash.MakeSeed()
	space := visited.Space[state, step]{
		Key:        func(s *state) uint64 { return w.key(seed, s) },
		Successors: w.successors,
		Breaks:     func(s *state) bool { found.broken = w.check(s); return found.broken != kept },
	}
	found.Found = space.Search(limit)
	found.masters, found.leases = len(w.ms.states), len(w.ls.states)
	space.Replay(found.Trace, func(by step, before, after *state) {
		found.trace = append(found.trace, fmt.Sprintf("%-66s %s", w.describe(by, before), w.display(after)))
	})
	return found
}

// orders3 are the permutations of the clients' names. The first is as they are.
var orders3 = [...][maxClients]int{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// allows reports whether clients may change places: they differ in their names only.
func (s *setup) allows(order int) bool {
	for c, to := range orders3[order] {
		if s.attempts[c] != s.attempts[to] || s.names[c] != s.names[to] || s.takes[c] != s.takes[to] || s.reads[c] != s.reads[to] {
			return false
		}
		if (c >= s.clients() || c == 0 && s.handsOver()) && to != c {
			return false
		}
	}
	return true
}

// key is the same for states that differ only in which client or master is which.
func (w *world) key(seed maphash.Seed, s *state) uint64 {
	least := ^uint64(0)
	clients := w.clients()
	for _, order := range w.orders {
		to := &orders3[order]
		var all struct {
			nodes                                                     [nodes]uint64
			rests                                                     [owners]uint32
			seeds                                                     [owners]uint8
			floors                                                    [owners][maxNames]uint8
			acquired                                                  [maxNames][8]uint8
			highest                                                   [maxNames]uint8
			writes                                                    [maxNames][8]uint8
			written                                                   [maxNames]uint8
			orphaned, broken, ticks, deaths, restarts, forgets, bumps uint8
			handed                                                    bool
			taken, left, reverts, faults                              uint8
		}
		all.acquired, all.highest = s.acquired, s.highest
		all.writes, all.written = s.writes, s.written
		all.broken, all.ticks, all.deaths, all.restarts, all.forgets, all.bumps = s.broken, s.ticks, s.deaths, s.restarts, s.forgets, s.bumps
		all.handed, all.taken, all.left, all.reverts, all.faults = s.handed, s.taken, s.left, s.reverts, s.faults
		var parts [nodes]struct {
			links         [maxClients]link
			votes         [owners]uint32
			master, saved uint32
		}
		for i := range nodes {
			parts[i].saved = w.ms.states[s.saved[i]].renamed[order]
			parts[i].master = w.ms.states[s.masters[w.processOf(i)]].renamed[order]
		}
		for c := range clients {
			for i := range nodes {
				parts[i].links[to[c]] = s.links[i][c]
			}
			for number := range int(w.attempts[c]) {
				from, at := ownerOf(c, number), ownerOf(to[c], number)
				st := &w.ls.states[s.leases[from]]
				all.rests[at] = st.rest
				all.seeds[at], all.floors[at] = s.seeds[from], s.floors[from]
				all.orphaned |= s.orphaned >> from & 1 << at
				for i := range nodes {
					parts[i].votes[at] = st.votes[i]
				}
			}
		}
		for i := range nodes {
			all.nodes[i] = maphash.Comparable(seed, parts[i])
		}
		if !w.twins {
			slices.Sort(all.nodes[:])
		}
		least = min(least, maphash.Comparable(seed, all))
	}
	return least
}
