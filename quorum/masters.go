package quorum

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
)

// newRoster returns the roster of a locker. The rule founds a deployment unless it refuses the
// number of nodes; exists is that of WithExistingDeployment.
func (c *core) newRoster(founds, exists bool) *roster.Roster {
	return roster.New(c.nodes, c.clock, roster.Options{
		Need: c.need, Founds: founds, Exists: exists, Log: c.log, Events: &c.events, Go: c.background.start, Closed: c.closed,
	})
}

// awaitList waits until the list of masters is known. While a name is not, it asks all nodes. The
// error says why the list is not known, with the error of each node.
func (c *core) awaitList(ctx context.Context) *Error {
	if c.roster.List() != nil {
		return nil
	}
	select {
	case s := <-c.roster.Survey():
		if c.roster.List() != nil {
			return nil
		}
		err := c.unattempted(ErrUnavailable)
		for i := range c.nodes {
			err.Nodes = multierror.Append(err.Nodes, c.nodeError(i, "acquire", s.Refusal(i)))
		}
		return err
	case <-ctx.Done():
		ended := contextError(ctx)
		if isOverdue(ended) {
			ended = append([]error{ErrUnavailable}, ended...)
		}
		return c.unattempted(ended...)
	case <-c.closed:
		return c.unattempted(ErrClosed)
	}
}

// notFounded returns why a number of nodes that the rule refuses makes no Locker: no master says
// that its members change to these, or perhaps one would, but does not answer.
func notFounded(s *roster.Survey, rule error) error {
	unanswered := s.Unanswered()
	if len(unanswered) == 0 {
		return fmt.Errorf("quorumlock: %w; no master says that its members change to these", rule)
	}
	return &Error{Op: "open", Nodes: multierror.Append(nil, unanswered...), causes: []error{rule,
		detail("none of the masters that answer says that its members change to these"), ErrUnavailable}}
}
