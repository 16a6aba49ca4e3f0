package semaphore

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/quorum/internal/slots"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

const (
	semaphore = "s"
	masters   = 3
	quorum    = 2
)

// setup is what the clients want: how many slots they say, and how many each wants at once.
type setup struct {
	sizes, wants []int // by client
	guesses      bool  // of every call
	steps        int   // of all clients
}

// bound is the largest number that a client says.
func (s setup) bound() int { return slices.Max(s.sizes) }

// world is the masters and the clients at one moment. choose decides what the world leaves open.
type world struct {
	setup
	choose  func(below int) int
	data    [masters]*fakeredis.Keyspace
	process scripts.Process
	list    *scripts.List
	clients []*client
	trace   []string
	broken  string
}

// client is one client, in one of the phases of a call.
type client struct {
	id      int
	turn    *slots.Turn
	past    string // of the turn: what was chosen and reported
	does    slots.Step
	chosen  []int
	asked   int // masters, of the attempt
	granted int
	holds   bool
	met     bool // another client has done something since the call began
	began   int  // how many slots were free on all masters then
}

func newWorld(s setup, choose func(below int) int) *world {
	w := &world{setup: s, choose: choose, list: scripts.NewList("m"),
		process: scripts.Process{Run: "process", MaxLease: time.Hour, Member: "m"}}
	marker := scripts.Marker{Process: w.process, Members: w.list, Next: scripts.NewList()}
	for i := range w.data {
		w.data[i] = fakeredis.NewKeyspace(time.UnixMilli(1_000_000_000))
		w.data[i].Set(scripts.MarkerKey, marker.String())
	}
	for id := range s.sizes {
		w.clients = append(w.clients, &client{id: id})
	}
	return w
}

// step lets one client do the next thing.
func (w *world) step() {
	c := w.clients[w.choose(len(w.clients))]
	for _, other := range w.clients {
		other.met = other.met || other != c
	}
	switch {
	case c.holds:
		w.release(c)
	case c.turn == nil:
		w.begin(c)
	case c.does == slots.Ask:
		from := w.choose(masters)
		reply := w.run(from, semaphores.Slots(semaphore, w.sizes[c.id])).Other.(semaphores.Hint)
		w.log(c, "master %d says that %v are free", from, reply.Free)
		c.turn.Hinted(reply.Free)
		c.past += fmt.Sprint(" h", reply.Free)
		w.next(c)
	default:
		w.ask(c)
	}
	w.judge()
}

// begin begins a call, which may guess at first.
func (w *world) begin(c *client) {
	c.met, c.began, c.past = false, w.free(w.sizes[c.id]), ""
	c.turn = slots.NewTurn(w.sizes[c.id], w.wants[c.id], 1, func(below int) int {
		chosen := w.choose(below)
		c.past += fmt.Sprint(" ", chosen)
		return chosen
	})
	if w.guesses {
		c.turn.Guess(-1)
	}
	w.next(c)
}

// next notes what the call does next.
func (w *world) next(c *client) {
	c.does, c.chosen = c.turn.Next()
	switch c.does {
	case slots.Try:
		c.asked, c.granted = 0, 0
		w.log(c, "attempts %v", c.chosen)
	case slots.Full, slots.Over:
		w.log(c, "waits")
		if w.wants[c.id] == 1 && !c.met && c.began > 0 {
			w.broken = fmt.Sprintf("client %d got no slot, although %d were free and nobody else came", c.id, c.began)
		}
		c.turn, c.past, c.chosen = nil, "", nil
	}
}

// ask asks the attempt's next master. Each client begins with another one.
func (w *world) ask(c *client) {
	master := (c.id + c.asked) % masters
	reply := w.run(master, scripts.Acquire(scripts.AcquireArgs{Names: names(c.chosen), Owner: c.owner(), Depth: 1,
		Lease: scripts.ToMillis(time.Hour), List: w.list, Seed: 1})).Acquire
	w.log(c, "asks master %d: granted %v", master, reply.Outcome == scripts.Granted)
	if reply.Outcome == scripts.Granted {
		c.granted++
	}
	c.asked++
	switch refused := c.asked - c.granted; {
	case c.granted == quorum:
		c.holds = true
		w.log(c, "holds %v", c.chosen)
	case refused == quorum:
		w.undo(c)
		c.turn.Refused()
		c.past += " r"
		w.next(c)
	}
}

func (w *world) release(c *client) {
	w.undo(c)
	w.log(c, "releases %v", c.chosen)
	c.holds, c.turn, c.past, c.chosen = false, nil, "", nil
}

func (w *world) undo(c *client) {
	for i := range w.data {
		w.run(i, scripts.Release(names(c.chosen), c.owner(), 0))
	}
}

// owner is the same for all calls of a client: here no request is late.
func (c *client) owner() scripts.Owner { return scripts.NewOwner(fmt.Sprint("client", c.id), 1) }

func names(numbers []int) (all []scripts.Name) {
	for _, name := range scripts.SlotNames(semaphore, numbers) {
		all = append(all, scripts.NewName(name))
	}
	return all
}

func (w *world) run(master int, call scripts.Call) scripts.Reply {
	args := scripts.ConnArgs{Process: w.process.String(), Tombstone: scripts.NoTombstone}
	if call.List() != nil {
		args.Expected = w.process.Expected(call.List())
	}
	value, err := w.data[master].Run(call, args)
	if err != nil {
		panic(err)
	}
	for slot := range w.bound() + 1 { // tokens would tell worlds apart
		w.data[master].Delete(scripts.NewName(scripts.SlotName(semaphore, slot)).Counter())
	}
	reply, err := call.Parse(value)
	if err != nil {
		panic(err)
	}
	return reply
}

// free counts the slots that nobody holds, nor has a vote for.
func (w *world) free(size int) (n int) {
	taken := map[int]bool{}
	for _, c := range w.clients {
		if c.holds || c.turn != nil && c.does == slots.Try {
			for _, slot := range c.chosen {
				taken[slot] = true
			}
		}
	}
	for slot := range size {
		if !taken[slot] {
			n++
		}
	}
	return n
}

// judge checks the promises.
func (w *world) judge() {
	holder, held := map[int]int{}, 0
	for _, c := range w.clients {
		if !c.holds {
			continue
		}
		if len(c.chosen) != w.wants[c.id] {
			w.broken = fmt.Sprintf("client %d holds %v and wanted %d", c.id, c.chosen, w.wants[c.id])
		}
		for _, slot := range c.chosen {
			held++
			if slot < 0 || slot >= w.sizes[c.id] {
				w.broken = fmt.Sprintf("client %d holds slot %d of %d", c.id, slot, w.sizes[c.id])
			}
			if other, taken := holder[slot]; taken {
				w.broken = fmt.Sprintf("slot %d is client %d's and client %d's", slot, other, c.id)
			}
			holder[slot] = c.id
		}
	}
	if held > w.bound() {
		w.broken = fmt.Sprintf("%d of %d slots are held", held, w.bound())
	}
}

func (w *world) log(c *client, format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("client %d ", c.id)+fmt.Sprintf(format, args...))
}

// key is different for different worlds.
func (w *world) key() string {
	var b []byte
	for _, data := range w.data {
		b = data.AppendKey(b, func(s string) string { return s })
	}
	for _, c := range w.clients {
		b = fmt.Appendf(b, "%s %v %v %d %d %v %v %d;", c.past, c.does, c.chosen, c.asked, c.granted, c.holds, c.met, c.began)
	}
	return string(b)
}
