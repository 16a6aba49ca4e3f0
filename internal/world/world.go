package world

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// Config is what a world begins with.
type Config struct {
	Masters int
	Rates   []float64 // of the masters' clocks; nil: 1
	Seed    uint64    // of what is random
	Weather *Weather  // nil: a quiet world
}

// World is masters, and the processes that use them. Its methods are safe for concurrent use.
type World struct {
	Masters []*fakeredis.Master
	Clock   *fakeclock.Clock // of processes without a rate of their own

	// Replace, when set, has another process take the place of one, which is killed or ends in good order.
	Replace func(process int, kill bool)

	tb      testing.TB
	seed    uint64
	weather *Weather
	start   time.Time
	calm    atomic.Bool
	before  []atomic.Pointer[func(Script)] // by master
	serving sync.WaitGroup

	leaping sync.Mutex // while it is held, no script starts
	ahead   time.Duration

	mu        sync.Mutex
	processes []*Process
	clocks    []*fakeclock.Clock // of processes
	conns     []*conn            // the processes' ends
	windows   []*window
	off       []int                   // by master: its connections are refused
	ends      []map[net.Conn]struct{} // by master: the masters' ends of connections
	faults    []func()                // what ends them

	ranMu sync.Mutex
	ran   map[string]int // scripts, by name
}

// New starts a quiet world of n masters, which stops when the test ends.
func New(tb testing.TB, n int) *World {
	tb.Helper()
	return Config{Masters: n}.New(tb)
}

// New starts the world, which stops when the test ends.
func (c Config) New(tb testing.TB) *World {
	tb.Helper()
	w := &World{tb: tb, seed: c.Seed, weather: c.Weather, start: time.Now(), Clock: fakeclock.New(), off: make([]int, c.Masters),
		before: make([]atomic.Pointer[func(Script)], c.Masters),
		ran:    map[string]int{}}
	w.Clock.SetRate(1)
	w.clocks = append(w.clocks, w.Clock)
	for i := range c.Masters {
		rate := 1.0
		if c.Rates != nil {
			rate = c.Rates[i]
		}
		origin := w.start
		if c.Weather != nil { // masters need not agree on the date
			origin = origin.Add(time.Duration(i) * 7 * time.Hour)
		}
		now := func() time.Time {
			w.leaping.Lock()
			defer w.leaping.Unlock()
			return origin.Add(time.Duration(float64(time.Since(w.start))*rate) + w.ahead)
		}
		m := fakeredis.New(now, c.Seed*16+uint64(i+1))
		m.Trace = w.hear(i)
		w.Masters, w.ends = append(w.Masters, m), append(w.ends, map[net.Conn]struct{}{})
	}
	tb.Cleanup(w.stop)
	return w
}

// stop returns when no goroutine of the world runs.
func (w *World) stop() {
	w.Heal()
	for _, c := range w.clocks {
		c.SetRate(0)
	}
	for i := range w.Size() {
		w.Process(i).Close()
	}
	for i, m := range w.Masters {
		w.Unplug(i)
		m.Stop()
	}
	w.serving.Wait()
}

// NodeName is the name of a master's nodes.
func NodeName(master int) string { return fmt.Sprint("master", master) }

// Address is a master's, which a process can dial.
func Address(master int) string { return fmt.Sprintf("master-%d.test:6379", master) }

// Start returns when the world began.
func (w *World) Start() time.Time { return w.start }

// Leap lets d pass at once for masters and processes, as if all processes had been paused for as long. No script starts between
// the two.
func (w *World) Leap(d time.Duration) {
	w.mu.Lock()
	clocks := slices.Clone(w.clocks)
	w.mu.Unlock()
	w.leaping.Lock()
	defer w.leaping.Unlock()
	for _, c := range clocks {
		c.Advance(d)
	}
	w.ahead += d
}

// Serve serves a connection to a master in a goroutine, or refuses it.
func (w *World) Serve(master int, c net.Conn) error {
	m := w.Masters[master]
	if !m.Up() { // not with the mutex: a master that is locked calls hear
		return errRefused
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.off[master] > 0 {
		return errRefused
	}
	w.ends[master][c] = struct{}{}
	w.serving.Go(func() {
		m.Serve(c)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.ends[master], c)
	})
	return nil
}

// HangUp has a master end its connections.
func (w *World) HangUp(master int) {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.ends[master]))
	w.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// Unplug has a master end its connections, and refuse new ones until plug. It forgets nothing.
func (w *World) Unplug(master int) (plug func()) {
	w.mu.Lock()
	w.off[master]++
	w.mu.Unlock()
	w.HangUp(master)
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.off[master]--
	})
}

// Reachable reports whether a master accepts connections.
func (w *World) Reachable(master int) bool {
	if !w.Masters[master].Up() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off[master] == 0
}

// reset ends the connections of a process to a master, when what was sent before has arrived.
func (w *World) reset(process, master int) {
	w.mu.Lock()
	var open []*conn
	for _, c := range w.conns {
		if c.out.process == process && c.out.master == master {
			open = append(open, c)
		}
	}
	w.mu.Unlock()
	for _, c := range open {
		at, _ := c.out.carry()
		c.cut(at)
	}
}

// forgetClosed forgets the connections that both ends have closed.
func (w *World) forgetClosed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = slices.DeleteFunc(w.conns, func(c *conn) bool { return c.in.isClosed() && c.out.isClosed() })
}
