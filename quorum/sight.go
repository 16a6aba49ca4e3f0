package quorum

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// sight is what one round saw of the nodes, after its marks.
type sight struct {
	list   *scripts.List      // nil while the name of a node is not known
	views  []*membership.View // nil for a node that did not answer, or is one process with another
	errs   []error            // why there is no view
	runIDs []string           // of the processes that answered
}

var (
	errUnmarked = errors.New("the master is new or has forgotten its list of masters. A client gives it its list when a " +
		"majority of the masters carry that list, or all of them answer and none has another; " +
		"quorumlock admit -members does so on your word")
	errUnmarkedExisting = errors.New("the master is new or has forgotten its list of masters. A client that was told that " +
		"the deployment exists gives it its list when a majority of the masters carry that list; " +
		"quorumlock admit -members does so on your word")
	errUnmarkable = fmt.Errorf("%w: the master is new or has forgotten its list of masters, and does not get "+
		"this client's, which another of its masters refuses", ErrMembership)
	errForgotList = errors.New("the master had forgotten its list of masters")
	errUnnamed    = errors.New("the list of masters is not known: a node over a pool has no name until it is " +
		"connected to (node.WithName gives it one)")
)

// verdict returns why a node does not let this locker in, nil when it does.
func (c *core) verdict(s *sight, i int) error {
	switch {
	case s.views[i] == nil:
		return s.errs[i]
	case s.list == nil:
		return c.unnamed(i)
	}
	switch s.views[i].Standing(s.list) {
	case membership.LetsIn:
		return nil
	case membership.Refuses:
		return s.views[i].Refusal(s.list)
	}
	if v := s.views[i]; v.HadAnother(s.list) {
		return fmt.Errorf("%w: the master has come back with the list %s, and no client has marked it since; this client's "+
			"list is %s (quorumlock admit -members gives it a list, on your word)", ErrMembership, v.Marker().Members, s.list)
	}
	if s.isRefused() && !s.letsIn() {
		return errUnmarkable
	}
	if c.members.exists {
		return errUnmarkedExisting
	}
	return errUnmarked
}

// isRefused reports whether a node refuses this locker's list.
func (s *sight) isRefused() bool {
	return slices.ContainsFunc(s.views, func(v *membership.View) bool {
		return v != nil && v.Standing(s.list) == membership.Refuses && errors.Is(v.Refusal(s.list), membership.ErrDiffers)
	})
}

// letsIn reports whether any node lets this locker in.
func (s *sight) letsIn() bool {
	return s.list != nil && slices.ContainsFunc(s.views, func(v *membership.View) bool {
		return v != nil && v.Standing(s.list) == membership.LetsIn
	})
}

// unfounded returns why a number of nodes that the rule refuses makes no Locker: no master says
// that its members change to these, or perhaps one would, but does not answer.
func (s *sight) unfounded(rule error) error {
	var failed *multierror.Error
	for i, v := range s.views {
		if v == nil {
			failed = multierror.Append(failed, s.errs[i])
		}
	}
	if failed == nil {
		return fmt.Errorf("quorumlock: %w; no master says that its members change to these", rule)
	}
	return &Error{Op: "open", Nodes: failed, causes: []error{rule,
		detail("none of the masters that answer says that its members change to these"), ErrUnavailable}}
}

// unnamed returns why the list of masters is not known, as far as a node that has answered tells.
func (c *core) unnamed(i int) error {
	name := c.nodes[i].Name()
	for j, other := range c.nodes {
		switch {
		case name == node.Unnamed:
			return fmt.Errorf("%w: the server does not tell its address: a node over a pool is then given a name, "+
				"by node.WithName", ErrInvalid)
		case j != i && other.Name() == name:
			return fmt.Errorf("%w: the servers of two nodes over pools tell the same address, %s: give the nodes names, "+
				"by node.WithName", ErrInvalid, name)
		}
	}
	return errUnnamed
}
