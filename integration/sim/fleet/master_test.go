package fleet

import (
	"bufio"
	"bytes"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// master is a Redis master with one core. Commands run one at a time, in the order they arrive,
// and each keeps the core busy; a run of a script that several requests share, as often as there are requests.
type master struct {
	region region
	redis  *fakeredis.Master
	takes  time.Duration // a command
	reader *bufio.Reader
	out    []byte
	shared int // how many requests the last command was

	mu      sync.Mutex
	changed sync.Cond
	inbox   []parcel
	over    bool
	work    work
}

// work is what a master has done.
type work struct {
	commands int
	acquires int           // requests for a grant
	busy     time.Duration // of the core
}

func (w work) since(before work) work {
	return work{w.commands - before.commands, w.acquires - before.acquires, w.busy - before.busy}
}

func newMaster(at region, takes time.Duration, seed uint64) *master {
	m := &master{region: at, redis: fakeredis.New(time.Now, seed), takes: takes, reader: bufio.NewReader(nil)}
	m.changed.L = &m.mu
	m.redis.Trace = func(_, script string, keysAndArgs []string, _ any, _ error) {
		switch script {
		case "acquires": // see acquires.lua
			m.shared = (len(keysAndArgs) - 3) / 4
		case "releases": // see releases.lua
			m.shared = len(keysAndArgs) / 3
		}
		if script == "acquire" || script == "acquires" {
			m.mu.Lock()
			m.work.acquires += m.shared
			m.mu.Unlock()
		}
	}
	return m
}

// arrived queues what has come over a wire.
func (m *master) arrived(p parcel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inbox = append(m.inbox, p)
	m.changed.Signal()
}

// done returns what the master has done so far.
func (m *master) done() work {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.work
}

func (m *master) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	m.changed.Signal()
}

// run serves until the master ends.
func (m *master) run() {
	for {
		batch, ok := m.take()
		if !ok {
			m.redis.Stop()
			return
		}
		for _, p := range batch {
			m.serve(p)
		}
	}
}

func (m *master) take() (batch []parcel, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.over && len(m.inbox) == 0 {
		m.changed.Wait()
	}
	batch, m.inbox = m.inbox, nil
	return batch, !m.over
}

func (m *master) serve(p parcel) {
	c := p.conn
	switch p.kind {
	case opening:
		m.spend(1)
		c.redis = m.redis.Connect(c.from, func(message []byte) { c.down.send(parcel{conn: c, data: bytes.Clone(message)}) })
		c.down.send(parcel{conn: c, kind: opening})
	case closing:
		if c.redis != nil {
			c.redis.Close()
			c.redis = nil
		}
	default:
		if c.redis != nil {
			m.answer(c, p.data)
		}
	}
}

// answer runs the commands of one read. Their replies leave together.
func (m *master) answer(c *conn, data []byte) {
	if len(c.pending) > 0 {
		data = append(c.pending, data...)
		c.pending = nil
	}
	in := bytes.NewReader(data)
	m.reader.Reset(in)
	m.out = m.out[:0]
	for read := 0; read < len(data); read = len(data) - in.Len() - m.reader.Buffered() {
		command, err := fakeredis.ReadCommand(m.reader)
		if err != nil { // the rest of it is under way
			c.pending = append(c.pending, data[read:]...)
			break
		}
		m.shared = 1
		m.out, _ = c.redis.Run(command, m.out)
		m.spend(m.shared)
	}
	if len(m.out) > 0 {
		c.down.send(parcel{conn: c, data: bytes.Clone(m.out)})
	}
}

// spend keeps the core busy with a command that serves several requests.
func (m *master) spend(requests int) {
	takes := time.Duration(requests) * m.takes
	m.mu.Lock()
	m.work.commands++
	m.work.busy += takes
	m.mu.Unlock()
	time.Sleep(takes)
}
