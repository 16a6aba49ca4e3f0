package roster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Survey is what the nodes were found to have, after the marks that followed from it.
type Survey struct {
	roster *Roster
	list   *scripts.List      // nil while the name of a node is not known
	views  []*membership.View // nil for a node that did not answer, or is one process with another
	errs   []error            // why there is no view
	runIDs []string           // of the processes that answered
}

func newSurvey(r *Roster) *Survey {
	n := len(r.nodes)
	return &Survey{roster: r, views: make([]*membership.View, n), errs: make([]error, n), runIDs: make([]string, n)}
}

// Refusal returns why a node does not accept this locker, nil if it does.
func (s *Survey) Refusal(i int) error {
	switch {
	case s.views[i] == nil:
		return s.errs[i]
	case s.list == nil:
		return s.roster.unnamed(i)
	}
	switch s.views[i].Standing(s.list) {
	case membership.Accepts:
		return nil
	case membership.Refuses:
		return s.views[i].Refusal(s.list)
	}
	for j, err := range s.errs {
		if s.views[j] == nil && redisconn.RefusesWrites(err) { // an operator's admission would be refused, too
			return fmt.Errorf("the master is new or has forgotten its list of masters, and does not get it while node %s refuses writes",
				s.roster.nodes[j].Name())
		}
	}
	if v := s.views[i]; v.HadAnother(s.list) {
		return fmt.Errorf("%w: the master has come back with the list %s, and no client has marked it since; this client's "+
			"list is %s (quorumlock admit -members gives it one, if what it asserts is true)", node.ErrMembership, v.Marker().Members, s.list)
	}
	if before, found := s.views[i].Announced(s.list); found {
		return fmt.Errorf("the master has come back in the midst of the change from %s to %s, and waits for a client with %[1]s: "+
			"lock any name with that list, all its masters up, and then repeat the change; or quorumlock admit -members gives it a "+
			"list, if what it asserts is true", before, s.list)
	}
	if s.hasOtherList() && !s.IsAccepted() {
		return errUnmarkable
	}
	if s.roster.opts.Exists {
		return errUnmarkedExisting
	}
	return errUnmarked
}

// IsAccepted reports whether any node accepts this locker.
func (s *Survey) IsAccepted() bool {
	return slices.ContainsFunc(s.views, func(v *membership.View) bool { return s.accepts(v) })
}

// HasList reports whether any node has this locker's list: it accepts this locker, did before it
// restarted, or is being marked for the list.
func (s *Survey) HasList() bool {
	return s.list != nil && slices.ContainsFunc(s.views, func(v *membership.View) bool { return v != nil && v.Has(s.list) })
}

// Unanswered returns the errors of the nodes of which nothing is known: most of them did not answer.
func (s *Survey) Unanswered() (errs []error) {
	for i, v := range s.views {
		if v == nil {
			errs = append(errs, s.errs[i])
		}
	}
	return errs
}

// Wait returns in how long a node can grant: 0 when it is ready. The error says why it cannot.
func (s *Survey) Wait(i int) (time.Duration, error) {
	if wait := s.claimWaits(i); wait > 0 {
		return wait, nil
	}
	if err := s.Refusal(i); err != nil {
		return 0, err
	}
	return s.roster.quarantine(i, s.views[i]), nil
}

// claimWaits returns how long a node must wait that is claimed for this locker's list; 0 if it is
// not.
func (s *Survey) claimWaits(i int) time.Duration {
	if v := s.views[i]; v == nil || s.list == nil || v.Standing(s.list) != membership.Claimed {
		return 0
	}
	return max(membership.ClaimWaits(s.views, s.list), 0)
}

// accepts reports whether a node with that view accepts this locker.
func (s *Survey) accepts(v *membership.View) bool {
	return s.list != nil && v != nil && v.Standing(s.list) == membership.Accepts
}

// hasOtherList reports whether a node has another list than this locker.
func (s *Survey) hasOtherList() bool {
	return slices.ContainsFunc(s.views, func(v *membership.View) bool {
		return v != nil && v.Standing(s.list) == membership.Refuses && errors.Is(v.Refusal(s.list), membership.ErrDiffers)
	})
}

// quarantine returns how long a node grants nothing new.
func (r *Roster) quarantine(i int, view *membership.View) time.Duration {
	return min(view.Quarantine(), inside.Of(r.nodes[i]).Quarantine)
}
