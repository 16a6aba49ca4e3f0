package quorum

import (
	"context"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// refusal returns why a node does not let this locker in; nil where a round must tell: a blank node
// may be marked, and one that says it is another member may be one process with it.
func (m *members) refusal(i int, r *scripts.Refusal) error {
	view, list := membership.ReadRefusal(*r), m.list.Load()
	if view.Standing(list) != membership.Refuses || view.IsAnotherMember(list) {
		return nil
	}
	m.noteKeptOut(i)
	return m.core.nodeError(i, "acquire", view.Refusal(list))
}

// renewalRefused returns why a node does not renew this locker's locks. A blank one is marked, if
// this locker may, so that the next renewal succeeds.
func (m *members) renewalRefused(i int, r *scripts.Refusal) error {
	if err := m.refusal(i, r); err != nil {
		return err
	}
	m.settle(i, func(time.Duration, error) {})
	return m.core.nodeError(i, "renew", errForgotList)
}

// ask has a round look at the nodes, and mark those that may be marked. It calls answer in a
// goroutine. Questions that come while a round runs share the next one.
func (m *members) ask(q question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q)
	if !m.running {
		m.running = true
		m.core.background.add()
		go m.run()
	}
}

// settle asks about one node. done gets how long the node is claimed and must wait, or 0 and nil
// when it lets this locker in now, or else a *node.Error.
func (m *members) settle(i int, done func(wait time.Duration, err error)) {
	m.ask(question{i, func(s *sight) {
		err := m.core.nodeError(i, "acquire", m.core.verdict(s, i))
		if s.views[i] != nil && s.list != nil && s.views[i].Standing(s.list) == membership.Claimed {
			if wait := membership.ClaimWaits(s.views, s.list); wait > 0 {
				done(wait, nil)
				return
			}
		}
		if err != nil {
			m.noteKeptOut(i)
		}
		done(0, err)
	}})
}

func (m *members) run() {
	defer m.core.background.done()
	for {
		asked := m.take()
		if len(asked) == 0 {
			return
		}
		release := logLater(m.core.nodes)
		s := m.round(asked)
		m.noteRefusals(s)
		if m.noteNew(s) {
			release(m)
		} else {
			release(nil)
		}
		for _, q := range asked {
			q.answer(s)
		}
	}
}

func (m *members) take() (asked []question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, m.asked = m.asked, nil
	m.running = len(asked) > 0
	return asked
}

// await waits until the list of masters is known. While a name is not, it asks all nodes. The error
// says why the list is not known, with the error of each node.
func (m *members) await(ctx context.Context) *Error {
	if m.list.Load() != nil {
		return nil
	}
	done := make(chan *sight, 1)
	m.ask(question{everyNode, func(s *sight) { done <- s }})
	select {
	case s := <-done:
		if m.list.Load() != nil {
			return nil
		}
		err := m.core.unattempted(ErrUnavailable)
		for i := range s.views {
			err.Nodes = multierror.Append(err.Nodes, m.core.nodeError(i, "acquire", m.core.verdict(s, i)))
		}
		return err
	case <-ctx.Done():
		ended := contextError(ctx)
		if isOverdue(ended) {
			ended = append([]error{ErrUnavailable}, ended...)
		}
		return m.core.unattempted(ended...)
	case <-m.core.closed:
		return m.core.unattempted(ErrClosed)
	}
}

// start has a round ask all nodes, and waits for it.
func (m *members) start() *sight {
	done := make(chan *sight, 1)
	m.ask(question{everyNode, func(s *sight) { done <- s }})
	return <-done
}
