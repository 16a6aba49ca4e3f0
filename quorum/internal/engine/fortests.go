package engine

import (
	"errors"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
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

// Check returns which invariant of the hold does not hold, or nil.
func (h *Hold) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.lease.Check()
	phase := h.lease.Phase()
	for what, holds := range map[string]bool{
		"an attempt has not ended, or is no lock":  h.attempt == nil || !h.lease.Kept(),
		"a lock that has ended says why":           h.ended != nil || phase <= lease.Held || phase == lease.Undone,
		"a handle for each level":                  phase != lease.Held || len(h.inner) == h.lease.Level()-1,
		"nobody listens for a lock that has ended": h.listener == nil || len(h.listener.cancels) == 0 || !h.lease.HasEnded(),
	} {
		if !holds {
			err = errors.Join(err, errors.New(what))
		}
	}
	return err
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
