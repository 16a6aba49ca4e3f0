package lease_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"

	"github.com/quorumlock/quorumlock/internal/visited"
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
	seed, salt := maphash.MakeSeed(), rand.Uint64()
	space := visited.Space[state, step]{
		Start:      w.start(),
		Key:        func(s *state) uint64 { return w.key(seed, salt, s) },
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

// places tell clients apart: a state's key has the sum of what the clients' keys are at their places.
var places = [maxClients]uint64{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb}

// mix makes a hash of a number, so that sums of them are hashes, too. maphash takes five times as long.
func mix(x uint64) uint64 {
	high, low := bits.Mul64(x, 0xe7037ed1a0b428db)
	return high ^ low
}

// linkKey is a link, and its hash. Most states differ in one link from the one before: to remember its hash saves a tenth
// of a search.
type linkKey struct {
	of link
	is uint64
}

// key is the same for states that differ only in which client or master is which. What concerns one client is hashed
// once, and then put together under each order.
func (w *world) key(seed maphash.Seed, salt uint64, s *state) uint64 {
	clients := w.clients()
	var links [nodes][maxClients]uint64 // with the votes
	var rests [maxClients]uint64
	for c := range clients {
		rests[c] = salt
		for i := range w.masters() {
			last := &w.last[i][c]
			if last.is == 0 || last.of != s.links[i][c] {
				*last = linkKey{s.links[i][c], maphash.Comparable(seed, s.links[i][c])}
			}
			links[i][c] = last.is
		}
		for number := range int(w.attempts[c]) {
			o := ownerOf(c, number)
			st := &w.ls.states[s.leases[o]]
			own := uint64(st.rest)<<9 | uint64(s.orphaned>>o&1)<<8 | uint64(s.seeds[o])
			for _, floor := range s.floors[o] {
				own = own<<8 | uint64(floor)
			}
			rests[c] = mix(rests[c] ^ own)
			for i, vote := range st.votes {
				links[i][c] = mix(links[i][c] ^ uint64(vote))
			}
		}
	}
	all := mix(salt ^ binary.LittleEndian.Uint64([]byte{s.broken, s.ticks, s.deaths, s.restarts, s.forgets, s.bumps, s.faults, s.left}))
	if w.setup.handsOver() {
		all += maphash.Comparable(seed, struct {
			handed         bool
			taken, reverts uint8
		}{s.handed, s.taken, s.reverts})
	}
	if w.fails > 0 {
		all += mix(salt ^ uint64(s.promoted))
	}
	if w.tokens {
		all += maphash.Comparable(seed, struct {
			acquired, writes [maxNames][8]uint8
			highest, written [maxNames]uint8
		}{s.acquired, s.writes, s.highest, s.written})
	}
	least := ^uint64(0)
	for _, order := range w.orders {
		key, to := all, &orders3[order]
		for c := range clients {
			key += rests[c] * places[to[c]]
		}
		for i := range w.masters() {
			saved, master := w.ms.states[s.saved[i]].renamed[order], w.ms.states[s.masters[w.processOf(i)]].renamed[order]
			node := mix(salt ^ uint64(saved)<<32 ^ uint64(master))
			if w.failsOver(i) {
				node = w.processesKey(salt, s, i, order)
			}
			for c := range clients {
				node += links[i][c] * places[to[c]]
			}
			if node = mix(node); w.twins || w.weights && i == 0 {
				node *= places[i]
			}
			key += node
		}
		least = min(least, mix(key))
	}
	return least
}

// processesKey is a master that fails over, under an order of the clients.
func (w *world) processesKey(salt uint64, s *state, i, order int) uint64 {
	key := salt
	for number := range w.copies() {
		p := w.process(s, i, number)
		key = mix(key ^ uint64(w.ms.states[p.data].renamed[order])<<32 ^ uint64(p.of)<<8 ^ uint64(p.reign))
		for _, behind := range p.behind {
			if key = mix(key + 1); behind != 0 {
				key = mix(key ^ uint64(w.ms.states[behind].renamed[order]) + 2)
			}
		}
		for _, left := range p.left {
			key = mix(key*4 + uint64(left))
		}
		if key = mix(key*8 + uint64(p.alone)); p.linked {
			key = mix(key + 3)
		}
	}
	return key
}
