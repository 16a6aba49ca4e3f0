package quorum

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
)

// The masters of a new deployment wait in quarantine together. One line of the log says so, instead
// of one for each node and one for the calls that wait, and one line says that it is over.

// logLater has the nodes say nothing of their quarantines until release is called: with the locker's
// members if these have said it for all nodes, else with nil.
func logLater(nodes []*node.Node) (release func(saidBy *members)) {
	releases := make([]func(func()), len(nodes))
	for i, n := range nodes {
		releases[i] = n.LogQuarantineLater()
	}
	return func(saidBy *members) {
		for i, release := range releases {
			if saidBy == nil {
				release(nil)
			} else {
				release(func() { saidBy.noteOver(i) })
			}
		}
	}
}

// noteOver notes that a node's first quarantine is over, and logs it once when so many grant as a
// lock needs.
func (m *members) noteOver(node int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants[node] = true
	if len(m.grants) == m.core.need && !m.saidOver && !m.core.isClosed() {
		m.saidOver = true
		m.core.events.Post(func() { m.core.log().Info("quorumlock: new masters grant now") })
	}
}

// noteNew reports whether all masters are new and wait in their first quarantine, and logs it once.
func (m *members) noteNew(s *sight) bool {
	for _, view := range s.views {
		if view == nil || s.list == nil || view.Standing(s.list) != membership.Claimed {
			return false
		}
	}
	left := membership.ClaimWaits(s.views, s.list)
	if left <= 0 {
		return false
	}
	m.newUntil.Store(int64(m.core.clock.Now().Add(left)))
	if !m.saidNew.Swap(true) {
		m.core.events.Post(func() { // a logger may block
			m.core.log().Info("quorumlock: new masters: they grant when left is over; quorumlock admit -yes URL... ends the wait",
				"left", left.Round(100*time.Millisecond).String())
		})
	}
	return true
}

// waitsForNew reports whether an attempt failed for the quarantine that noteNew has logged.
func (m *members) waitsForNew(e *Error) bool {
	return errors.Is(e, ErrQuarantined) && m.core.clock.Now().Before(clock.Instant(m.newUntil.Load()))
}
