package engine

import (
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// The functions of this file are for tests.

// Names returns the names on the nodes.
func (h *Hold) Names() []scripts.Name { return h.names }

// RenewNow makes the hold's renewal due.
func (h *Hold) RenewNow() { h.engine.schedule.Hasten(&h.entry, h.engine.Clock.Now()) }

// Unschedule takes the hold out of the schedule: nothing renews it, or finds that its deadline has passed.
func (h *Hold) Unschedule() { h.engine.schedule.Remove(&h.entry) }

// HandleDue handles the hold as if it were due at now. after is left to do, as with schedule.Due.
func (h *Hold) HandleDue(now clock.Instant) (after func()) {
	return h.engine.renewDue(now, []*schedule.Entry[*Hold]{&h.entry})
}

// NodeErrors returns the errors of the nodes' last replies, nil for none.
func (h *Hold) NodeErrors() (all []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.members {
		all = append(all, h.members[i].err)
	}
	return all
}
