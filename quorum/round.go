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
	for range 4 * n { // a bound for nodes whose markers change under us
		if s.list == nil || m.core.isClosed() {
			return s
		}
		marks := m.client(s).Plan(s.views)
		if len(marks) == 0 || !m.mark(s, marks) {
			return s
		}
	}
	return s
}

// client returns what package membership must know of this locker. An even number of masters founds
// no deployment, but once masters have let it in, it may go on with theirs.
func (m *members) client(s *sight) membership.Client {
	return membership.Client{
		List: s.list, Found: m.founds || m.wasLetIn.Load(), Exists: m.exists,
		Quarantine: func(i int) time.Duration { return m.core.nodes[i].Quarantine() },
	}
}

// look looks at all nodes. It stops waiting for nodes that no question is about once a majority lets
// this locker in: the others cannot change what is marked.
func (m *members) look(s *sight, asked []question) {
	c, sent := m.core, m.core.clock.Now()
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
			since := m.core.clock.Now().Sub(sent)
			s.views[i], s.runIDs[i] = membership.Read(*r.Reply.Look, since), r.RunID
		}
		s.list = m.resolve()
		m.see(s, i, sent)
		if !slices.ContainsFunc(asked, isOpen) && s.list != nil && m.client(s).MayMark(s.views) {
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

// mark writes marks, all at once. A node that does not answer has no view any more. It returns false
// when nothing has changed: the look is too old to mark by.
func (m *members) mark(s *sight, marks []membership.Mark) (changed bool) {
	c := m.core
	sent := c.clock.Now()
	before := slices.Clone(s.views)
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
	for i, v := range s.views {
		changed = changed || before[i] != nil && (v == nil || v.Text != before[i].Text)
	}
	return changed
}

// see records a node that lets this locker in.
func (m *members) see(s *sight, i int, sent clock.Instant) {
	if s.list == nil || s.views[i] == nil || s.views[i].Standing(s.list) != membership.LetsIn {
		return
	}
	m.proved(i, sent)
	m.wasLetIn.Store(true)
}
