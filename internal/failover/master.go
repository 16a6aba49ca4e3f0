package failover

import "sync"

// Master is a Group as one master: what is asked, or done to it, is asked of the primary.
type Master struct {
	*Group
	mu    sync.Mutex
	last  *Server // that the Sentinels named
	moved int     // how often they named another one
	hit   *Server // by Kill, Freeze or IsolatePrimary
}

// Masters returns the groups as masters.
func (s *Sentinels) Masters() (all []*Master) {
	for _, g := range s.Groups {
		all = append(all, &Master{Group: g, last: g.Servers[0]})
	}
	return all
}

// Named is the server that the Sentinels named last.
func (m *Master) Named() *Server {
	one, err := m.Primary()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && one != m.last {
		m.last = one
		m.moved++
	}
	return m.last
}

// Moved is how often the Sentinels have named another server.
func (m *Master) Moved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

// hits returns the primary, which Start, Thaw and JoinAgain are for from now on.
func (m *Master) hits() *Server {
	one := m.Named()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hit = one
	return one
}

func (m *Master) wasHit() *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hit
}

func (m *Master) Addr() string                { return m.Named().Addr() }
func (m *Master) Do(args ...any) (any, error) { return m.Named().Do(args...) }
func (m *Master) Kill() error                 { return m.hits().Kill() }
func (m *Master) Start() error                { return m.wasHit().Start() }
func (m *Master) Freeze() error               { return m.hits().Freeze() }
func (m *Master) Thaw() error                 { return m.wasHit().Thaw() }

// IsolatePrimary cuts the primary off from its replicas and the Sentinels, not from clients. What they say meanwhile
// arrives after JoinAgain.
func (m *Master) IsolatePrimary() error { m.Isolate(m.hits()); return nil }

// JoinAgain ends IsolatePrimary.
func (m *Master) JoinAgain() error { m.Join(m.wasHit()); return nil }
