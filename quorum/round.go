package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

// round looks at the nodes, and marks those that may be marked.
func (m *members) round(asked []question) *sight {
	n := len(m.core.nodes)
	s := &sight{views: make([]*membership.View, n), errs: make([]error, n), runIDs: make([]string, n)}
	m.look(s, asked)
	claimed := false  // since the last look
	for range 4 * n { // a bound for nodes whose markers change under us
		if s.list == nil {
			return s
		}
		marks := m.client(s).Plan(s.views)
		claims := len(marks) > 0 && marks[0].Claims
		switch {
		case len(marks) == 0 || m.core.isClosed() || !m.isRecent(s.looked):
			return s
		case claimed && !claims:
			m.look(s, asked)
			claimed = false
			continue
		}
		m.mark(s, marks)
		claimed = claimed || claims
	}
	return s
}

// client returns what package membership must know of this locker. Grants do not refresh the marker
// that is known: a later change may have replaced its lists, so it counts for as long as a proof
// does.
func (m *members) client(s *sight) membership.Client {
	c := membership.Client{
		List: s.list, Need: len(m.core.nodes)/2 + 1, Proven: m.isProven,
		Quarantine: func(i int) time.Duration { return m.core.nodes[i].Quarantine() },
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Found = m.found || m.known != nil // an even number, too, once masters have let it in
	if m.known != nil && m.isRecent(m.knownAt) {
		c.Known = m.known
	}
	return c
}

// mayMark reports whether the views so far are enough to mark blank nodes: one of them has the
// lists to copy.
func (m *members) mayMark(s *sight) bool {
	c := m.client(s)
	c.Known = nil
	return c.MayMark(s.views)
}

// look looks at all nodes. Once this locker may mark blank nodes, it stops waiting for nodes that
// no question is about.
func (m *members) look(s *sight, asked []question) {
	c, sent := m.core, m.core.clock.Now()
	s.looked = sent
	s.list = m.resolve() // also where no node answers
	s.views, s.runIDs = make([]*membership.View, len(c.nodes)), make([]string, len(c.nodes))
	for i := range s.errs {
		s.errs[i] = c.nodeError(i, "look", node.ErrTimeout)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var mu sync.Mutex
	answered := make([]bool, len(c.nodes))
	isOpen := func(q question) bool { return q.node == everyNode || !answered[q.node] }
	c.each("look", func(i int, n *node.Node) error {
		r := n.Pipe("").Do(ctx, scripts.Look())
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return nil // it was not waited for
		}
		answered[i] = true
		if s.errs[i] = r.Err; r.Err == nil {
			s.views[i], s.runIDs[i] = membership.Read(*r.Reply.Look), r.RunID
		}
		s.list = m.resolve()
		m.see(s, i, sent)
		if !slices.ContainsFunc(asked, isOpen) && s.list != nil && m.mayMark(s) {
			stop()
		}
		return nil
	})
	m.refuseTwins(s)
}

// refuseTwins takes away the views of nodes that are one process: no list has one process twice. It
// leaves the one that lets this locker in.
func (m *members) refuseTwins(s *sight) {
	for j := range s.views {
		for i := range j {
			if s.views[i] == nil || s.views[j] == nil || s.runIDs[i] != s.runIDs[j] {
				continue
			}
			refused := map[int]error{i: m.core.verdict(s, i), j: m.core.verdict(s, j)}
			for k, why := range refused {
				if why != nil {
					s.views[k] = nil
					s.errs[k] = m.core.oneProcess(k, i+j-k)
				}
			}
		}
	}
}

// mark writes marks, all at once. A node that does not answer has no view any more.
func (m *members) mark(s *sight, marks []membership.Mark) {
	c := m.core
	sent := c.clock.Now()
	var group errgroup.Group
	for _, mark := range marks {
		group.Go(func() error {
			i := mark.Node
			r := c.nodes[i].Pipe("").Do(context.Background(), mark.Call)
			if r.Err != nil {
				s.views[i], s.errs[i] = nil, r.Err
				return nil
			}
			s.views[i] = s.views[i].Wrote(*r.Reply.Mark)
			m.see(s, i, sent)
			return nil
		})
	}
	group.Wait()
}

// see records a node that lets this locker in.
func (m *members) see(s *sight, i int, sent clock.Instant) {
	if s.list == nil || s.views[i] == nil || s.views[i].Standing(s.list) != membership.LetsIn {
		return
	}
	m.proved(i, sent)
	marker := s.views[i].Marker()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || marker.Generation >= m.known.Generation || !m.isRecent(m.knownAt) {
		m.known, m.knownAt = &marker, sent
	}
}
