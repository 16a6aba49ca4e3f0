package roster

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// survey looks at the nodes, and marks those that may be marked.
func (r *Roster) survey(asked []question) *Survey {
	s := newSurvey(r)
	s.look(asked)
	if s.list != nil {
		s.client().Settle(s.views, s.mark)
	}
	return s
}

// errEnough ends the questions that wait for more answers than are needed.
var errEnough = errors.New("enough nodes have answered")

// look looks at all nodes. It stops waiting for nodes that no question is about once a majority
// accepts this locker: the others cannot change what is marked.
func (s *Survey) look(asked []question) {
	r := s.roster
	sent := r.clock.Now()
	var mu sync.Mutex
	answered := make([]bool, len(r.nodes))
	isOpen := func(q question) bool { return q.node == everyNode || !answered[q.node] }
	inside.Each(context.Background(), r.nodes, func(ctx context.Context, i int, n *node.Node) error {
		result := inside.Of(n).Pipe("").Do(ctx, scripts.Look())
		mu.Lock()
		defer mu.Unlock()
		answered[i] = true
		if s.errs[i] = result.Err; result.Err == nil {
			since := r.clock.Now().Sub(sent)
			s.views[i], s.runIDs[i] = membership.Read(*result.Reply.Look, since), result.RunID
		}
		s.list = r.Resolve()
		s.noteAccepted(i, sent)
		if !slices.ContainsFunc(asked, isOpen) && s.list != nil && r.client(s.list).MayMark(s.views) {
			return errEnough
		}
		return nil
	})
	s.refuseTwins()
}

// refuseTwins removes the views of nodes that are the same process, except the one that accepts this locker: no list
// has a process twice.
func (s *Survey) refuseTwins() {
	nodes := s.roster.nodes
	for j := range s.views {
		for i := range j {
			if s.views[j] == nil || s.runIDs[i] != s.runIDs[j] {
				continue
			}
			refused := map[int]error{i: s.Refusal(i), j: s.Refusal(j)}
			for k, why := range refused {
				if why != nil {
					s.views[k] = nil
					s.errs[k] = OneProcess(nodes[k], nodes[i+j-k])
				}
			}
		}
	}
}

// mark writes marks, all at once. A node that does not answer loses its view. It returns false, and writes nothing, if
// the locker was closed.
func (s *Survey) mark(marks []membership.Mark) (goOn bool) {
	r := s.roster
	if r.opts.IsClosed() {
		return false
	}
	sent := r.clock.Now()
	inside.Each(context.Background(), marks, func(ctx context.Context, _ int, mark membership.Mark) error {
		i := mark.Node
		result := inside.Of(r.nodes[i]).Pipe("").Do(ctx, mark.Call)
		if result.Err != nil {
			s.views[i], s.errs[i] = nil, result.Err
			return nil
		}
		s.views[i] = s.views[i].Wrote(*result.Reply.Mark)
		s.noteAccepted(i, sent)
		return nil
	})
	return true
}

// noteAccepted records whether a node accepts this locker, by its reply to a request sent at sent.
func (s *Survey) noteAccepted(i int, sent clock.Instant) {
	if s.accepts(s.views[i]) {
		s.roster.NoteAccepted(i, sent)
		s.roster.wasAccepted.Store(true)
	}
}
