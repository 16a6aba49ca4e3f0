// Package fakeredis is a stand-in for a Redis master: a state machine in Go of the commands that a
// lock sends, with a clock, a memory and a process of its own. It serves any net.Conn, and runs in
// a testing/synctest bubble, where no server can. The masters of packages quorumtest and inmemory are such.
//
// It does not run Lua: each script of package scripts, known by its hash, has a program in Go, which makes
// the same calls of Redis in the same order. The script vectors of package scripts hold these programs to
// the replies of a real server, and TestDifferential compares both in random sequences.
package fakeredis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Memory is the data that survives a crash.
type Memory int

const (
	// Nothing: the master starts empty.
	Nothing Memory = iota
	// LastSave: the data that Save kept, or nothing.
	LastSave
	// Everything: every write had reached the disk.
	Everything
)

// Master is one Redis master. It is safe for concurrent use.
type Master struct {
	now func() time.Time
	ids *rand.Rand

	// Trace, when set before the first connection, is called for every script that ran, with the
	// remote address of its connection and the reply. The master is locked during the call.
	Trace func(client, script string, args []string, reply any, err error)

	// AnyList, when set before the first connection, makes grants and renewals accept clients of
	// every list of masters: tests show with it what the lists are for.
	AnyList bool

	mu       sync.Mutex
	up       bool
	runID    string
	started  time.Time
	data     map[string]*value
	sweepAt  int // expired keys are deleted once there are so many; each command lowers it by one
	saved    map[string]*value
	scripts  map[string]bool // loaded ones, by SHA-1
	sessions map[*session]struct{}
	refusals Refusals
	ended    sync.WaitGroup

	subscribers  map[string]map[*session]struct{} // by channel
	withPatterns map[*session]struct{}            // the sessions that have named patterns at any time
}

// New returns a running master. Its clock is now, which may run at any rate but must not go back.
// Its run ids follow from the seed.
func New(now func() time.Time, seed uint64) *Master {
	m := &Master{
		now: now, ids: rand.New(rand.NewPCG(seed, 0x5eed)),
		data: map[string]*value{}, sessions: map[*session]struct{}{},
		subscribers: map[string]map[*session]struct{}{}, withPatterns: map[*session]struct{}{},
	}
	m.Start()
	return m
}

// Start starts a crashed master, as a new process with the memory that the crash left.
func (m *Master) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.up {
		return
	}
	m.up, m.started = true, m.now()
	m.runID = fmt.Sprintf("%016x%016x%08x", m.ids.Uint64(), m.ids.Uint64(), m.ids.Uint32())
	m.scripts = map[string]bool{}
}

// Save keeps the present memory for LastSave.
func (m *Master) Save() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = clone(m.data)
}

// Crash ends the process: its connections die, and unsent replies are lost.
func (m *Master) Crash(keeps Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up = false
	switch keeps {
	case Nothing:
		m.data = map[string]*value{}
	case LastSave:
		m.data = clone(m.saved)
	}
	for s := range m.sessions {
		s.end()
	}
}

// Up reports whether the process runs.
func (m *Master) Up() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.up
}

// Stop is Crash, and returns when no goroutine of the master runs.
func (m *Master) Stop() {
	m.Crash(Nothing)
	m.ended.Wait()
}

// Serve answers the commands of a connection until the connection or the process ends, then closes
// it. While no process runs, Serve closes the connection at once.
func (m *Master) Serve(conn net.Conn) {
	s := newSession(m, conn)
	m.mu.Lock()
	if !m.up {
		m.mu.Unlock()
		conn.Close()
		return
	}
	m.sessions[s] = struct{}{}
	m.ended.Add(1)
	m.mu.Unlock()

	s.serve()

	m.mu.Lock()
	m.forgetLocked(s)
	m.mu.Unlock()
	m.ended.Done()
}

// Keys returns the names of all keys that have not expired, also while the process is down.
func (m *Master) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.openLocked().names("*")
}

// Listening returns how many connections have subscribed to a channel by its name.
func (m *Master) Listening(channel string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.listeningLocked(channel))
}

// Set writes a string that does not expire.
func (m *Master) Set(key, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.openLocked().set(key, text, 0)
}

// Flush deletes every key, as FLUSHALL does.
func (m *Master) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.data)
}

// FlushScripts unloads every script, as SCRIPT FLUSH does.
func (m *Master) FlushScripts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.scripts)
}

// openLocked returns the data at the present moment, which stays the same throughout a command or a
// script.
func (m *Master) openLocked() *Keyspace {
	k := &Keyspace{values: m.data, now: m.now().UnixMilli(), publish: m.publishLocked, listening: m.listeningLocked,
		anyList: m.AnyList}
	k.Refuse(m.refusals)
	if m.sweepAt--; len(m.data) >= m.sweepAt {
		k.sweep()
		m.sweepAt = 2*len(m.data) + 1024
	}
	return k
}

func clone(data map[string]*value) map[string]*value {
	copied := map[string]*value{}
	for key, v := range data {
		c := *v
		c.hash, c.list, c.scores = maps.Clone(v.hash), slices.Clone(v.list), maps.Clone(v.scores)
		copied[key] = &c
	}
	return copied
}
