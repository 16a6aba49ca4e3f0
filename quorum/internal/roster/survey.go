package roster

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Survey is what the nodes had, after the marks that followed from it.
type Survey struct {
	roster *Roster
	list   *scripts.List      // nil while the name of a node is not known
	views  []*membership.View // nil for a node that did not answer, or is the same process as another
	errs   []error            // why there is no view
	runIDs []string           // of the processes that answered
}

func newSurvey(r *Roster) *Survey {
	n := len(r.nodes)
	return &Survey{roster: r, views: make([]*membership.View, n), errs: make([]error, n), runIDs: make([]string, n)}
}

// Refusal returns why a node does not accept this locker, nil if it does.
func (s *Survey) Refusal(i int) error {
	if s.list == nil && s.views[i] != nil {
		return s.roster.unnamed(i)
	}
	return s.client().Refusal(s.views, s.errs, i)
}

// client describes this locker for package membership.
func (s *Survey) client() membership.Client { return s.roster.client(s.list) }

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

// Readiness returns whether each node grants, or why it does not; tried has the results of trials.
func (s *Survey) Readiness(tried []error) []membership.Readiness {
	all := make([]membership.Readiness, len(s.views))
	for i, err := range tried {
		r := &all[i]
		if s.list == nil {
			r.Err = s.Refusal(i)
		} else if *r = s.client().Readiness(s.views, s.errs, i); r.Err == nil && r.In == 0 {
			r.Err = err
		}
	}
	return all
}

// claimWaits returns how long a node that is claimed for this locker's list must wait; 0 for other nodes.
func (s *Survey) claimWaits(i int) time.Duration {
	if s.list == nil {
		return 0
	}
	return s.client().ClaimWaits(s.views, i)
}

// accepts reports whether a node with that view accepts this locker.
func (s *Survey) accepts(v *membership.View) bool {
	return s.list != nil && v != nil && v.Relation(s.list) == membership.Accepts
}
