//go:build unix

package chaos

import (
	"net"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/inside"
)

func walk(r *run) {
	w := &walker{run: r, busy: make([]bool, r.n), lists: [][]int{placesTo(r.n)}}
	w.walk()
}

func (w *walker) walk() {
	for _, group := range []string{"left", "right"} {
		w.groups = append(w.groups, w.apartFor(group))
	}
	for i := range 5 {
		w.clients = append(w.clients, w.client(i))
	}
	if w.rivals != nil {
		w.groups = append(w.groups, w.rivals.two[0].way, w.rivals.two[1].way)
	}
	began := time.Now()
	for time.Since(began) < *walkFor || !w.walked() && time.Since(began) < 2**walkFor {
		w.step()
		w.wait(100*time.Millisecond + w.below(400*time.Millisecond))
		w.heal(time.Now())
		if w.rivals != nil && w.played%8 == 0 { // a change needs all its masters, unchanged for a max lease
			w.heal(time.Now().Add(time.Hour))
			w.rivals.work(3 * w.lease)
		}
	}
	w.heal(time.Now().Add(time.Hour))
	able := w.clients
	if w.rivals != nil {
		w.rivals.tell()
		at := w.rivals.settle()
		able = []*worker{w.clients[at]}
	}
	w.available(time.Now(), w.lease+5*slack, "all was healed", able...)
	w.let(time.Second)
	if all := len(w.faults()); w.played < all {
		w.note("only %d of %d faults happened in that time", w.played, all)
	}
}

// walked reports whether each fault has had its turn, and the rivals have done what they are here for.
func (w *walker) walked() bool {
	return w.played >= len(w.faults()) && (w.rivals == nil || w.rivals.fought())
}

type walker struct {
	*run
	lists   [][]int  // of the clients, in turn
	rivals  *rivals  // nil for none
	groups  []*paths // the first two are the clients'
	clients []*worker
	busy    []bool // masters with a fault: one fault of a master at a time
	cures   []cure
	deck    []func() bool // the faults still to begin before the next shuffle, so that each has its turn
	played  int
}

type cure struct {
	at time.Time
	do func()
}

// client starts client i. Every fifth is careless.
func (w *walker) client(i int) *worker {
	urls := w.groups[i%2].urls(w.lists[i%len(w.lists)]...)
	return w.crowd(1, contender.Plan{URLs: urls, Careless: i == 4, Hold: 100 * time.Millisecond, Patience: time.Second})[0]
}

// wait lets time pass, in which the rivals work.
func (w *walker) wait(d time.Duration) {
	if w.rivals != nil {
		w.rivals.work(d)
	} else {
		w.let(d)
	}
}

func (w *walker) later(do func()) {
	d := 200*time.Millisecond + w.below(w.lease+w.lease/2)
	w.cures = append(w.cures, cure{time.Now().Add(d), do})
}

func (w *walker) heal(now time.Time) {
	due := w.cures
	w.cures = nil
	for _, c := range due {
		if c.at.After(now) {
			w.cures = append(w.cures, c)
			continue
		}
		c.do()
	}
}

// during begins a fault, which ends later if it has an end. The master is busy until then.
func (w *walker) during(i int, begin, end func(...int)) {
	begin(i)
	if end == nil {
		return
	}
	w.busy[i] = true
	w.later(func() {
		end(i)
		w.busy[i] = false
	})
}

// free returns a master without a fault; −1 if all have one.
func (w *walker) free() int {
	n := len(w.busy)
	from := w.rng.IntN(n)
	for k := range n {
		if i := (from + k) % n; !w.busy[i] {
			return i
		}
	}
	return -1
}

// faults returns all faults. Each reports whether it could begin; some need a master without a
// fault.
func (w *walker) faults() []func() bool {
	at := func(begin func(int)) func() bool {
		return func() bool {
			i := w.free()
			if i >= 0 {
				begin(i)
			}
			return i >= 0
		}
	}
	all := []func() bool{
		at(w.filled), at(func(i int) { w.crash(i) }), w.tailLost, w.resynced, at(func(i int) { w.Promote(w.Replica(i), i) }),
		at(w.clientsPaused), at(func(i int) { w.command(i, "SCRIPT FLUSH", "SCRIPT", "FLUSH") }),
		at(func(i int) { w.command(i, "CLIENT KILL", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }),
		w.clientStopped, w.clientStopped, w.clientStopped, w.clientKilled,
	}
	for _, f := range w.Faults {
		all = append(all, at(func(i int) { w.during(i, f.Begin, f.End) }))
	}
	for k := range inside.Of(w.groups[0].Cluster).Faults {
		all = append(all, at(func(i int) { // the master is busy for the other groups, too, so faults do not pile up
			f := inside.Of(w.groups[w.rng.IntN(len(w.groups))].Cluster).Faults[k]
			w.during(i, f.Begin, f.End)
		}))
	}
	return all
}

func (w *walker) step() {
	if len(w.deck) == 0 {
		w.deck = w.faults()
		w.rng.Shuffle(len(w.deck), func(i, j int) { w.deck[i], w.deck[j] = w.deck[j], w.deck[i] })
	}
	for k, begin := range w.deck {
		if begin() {
			w.deck = slices.Delete(w.deck, k, k+1)
			w.played++
			return
		}
	}
}

// filled leaves a master no free memory for a while, and it evicts nothing.
func (w *walker) filled(i int) {
	w.during(i, func(...int) { w.command(i, "maxmemory", "CONFIG", "SET", "maxmemory", "1") },
		func(...int) { w.must(w.do(i, "CONFIG", "SET", "maxmemory", "0")) })
}

// tailLost stops a master's writes to its append-only file, and then crashes it: it loses everything since, as a machine's
// crash loses the last second of everysec. (A crash of the process alone loses nothing that the kernel has received.)
func (w *walker) tailLost() bool {
	i := w.free()
	if i < 0 || i%3 == 0 { // every third master has no file
		return false
	}
	w.during(i, func(...int) {
		w.command(i, "lose the tail of the append-only file", "CONFIG", "SET", "appendonly", "no")
	}, w.crash)
	return true
}

// resynced makes a master the replica of another for a while, which replaces its data.
func (w *walker) resynced() bool {
	i := w.free()
	if i < 0 {
		return false
	}
	w.busy[i] = true
	of := w.free()
	if w.busy[i] = false; of < 0 {
		return false
	}
	w.busy[of] = true
	w.during(i, func(...int) {
		host, port, _ := net.SplitHostPort(w.Servers[of].Addr())
		w.command(i, "REPLICAOF", "REPLICAOF", host, port)
	}, func(...int) {
		w.busy[of] = false
		w.must(w.do(i, "REPLICAOF", "NO", "ONE"))
	})
	return true
}

// clientsPaused ends by itself.
func (w *walker) clientsPaused(i int) {
	d := w.below(w.lease)
	w.command(i, "CLIENT PAUSE", "CLIENT", "PAUSE", d.Milliseconds(), "ALL")
	w.busy[i] = true
	w.cures = append(w.cures, cure{time.Now().Add(d), func() { w.busy[i] = false }})
}

func (w *walker) clientStopped() bool {
	c := w.clients[w.rng.IntN(len(w.clients))]
	if c.stopped {
		return false
	}
	w.stopClient(c)
	c.stopped = true
	w.later(func() {
		c.stopped = false
		w.continueClient(c)
	})
	return true
}

func (w *walker) clientKilled() bool {
	k := w.rng.IntN(len(w.clients))
	if w.clients[k].stopped || w.rivals != nil && k%len(w.lists) == 0 { // an even list opens only while masters have it
		return false
	}
	w.killClient(w.clients[k])
	w.clients[k] = w.client(k)
	return true
}
