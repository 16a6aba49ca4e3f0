package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// opReady is the operation of the errors of [Locker.Ready].
const opReady = "ready"

// Ready returns nil if so many nodes as a lock needs answer, let this Locker in and are out of
// quarantine. It is for a readiness probe, and for a program that should fail at its start rather
// than wait in its first call of Lock. It takes no lock, and writes nothing but the marks of new
// masters, as [Open] does. What it does not see is whether the user may run the scripts at a name.
//
// It asks all nodes, and returns as soon as enough are ready: no dead node delays that. Otherwise it
// takes up to about a node's timeout.
//
// The error is an [*Error] with the [*node.Error] of each node that failed. It wraps
// [ErrQuarantined] if only quarantines, which pass by themselves, are in the way, or else
// [ErrUnavailable]; with it [ErrMembership] for another list of masters, and [ErrPermanent] if too
// few nodes are without a permanent error. A Locker whose options [Locker.With] refused returns
// [ErrInvalid], and a closed one [ErrClosed].
func (l *Locker) Ready(ctx context.Context) error {
	c := l.core
	if err := l.unusable(opReady, nil); err != nil {
		return err
	}
	if ended := contextError(ctx); ended != nil {
		return &Error{Op: opReady, causes: ended}
	}
	if c.isReady(ctx) {
		return nil
	}
	done := make(chan *sight, 1) // a round tells why, and marks new masters
	c.members.ask(question{everyNode, func(s *sight) { done <- s }})
	select {
	case s := <-done:
		if err := c.notReady(s); err != nil {
			return err
		}
		return nil
	case <-ctx.Done():
		return &Error{Op: opReady, causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	case <-c.closed:
		return &Error{Op: opReady, causes: []error{ErrClosed}}
	}
}

// isReady looks at all nodes, and reports whether as many as the quorum size are ready. It returns
// as soon as they are.
func (c *core) isReady(ctx context.Context) bool {
	list, sent := c.members.resolve(), c.clock.Now()
	if list == nil {
		return false
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var mu sync.Mutex
	ready := map[string]bool{} // by run id: one process is one vote
	c.each("look", func(i int, n *node.Node) error {
		r := n.Pipe("").Do(ctx, scripts.Look())
		if r.Err != nil {
			return r.Err
		}
		view := membership.Read(*r.Reply.Look, 0)
		if view.Standing(list) != membership.LetsIn || c.quarantineOf(i, view) > 0 {
			return nil
		}
		c.members.proved(i, sent)
		mu.Lock()
		defer mu.Unlock()
		if ready[r.RunID] = true; len(ready) >= c.need {
			enough()
		}
		return nil
	})
	return len(ready) >= c.need
}

// quarantineOf returns how long a node that was looked at grants nothing new.
func (c *core) quarantineOf(i int, view *membership.View) time.Duration {
	left, _ := view.Quarantine()
	return min(left, c.nodes[i].Quarantine())
}

// notReady returns why the nodes of a sight make no lock, or nil if they can.
func (c *core) notReady(s *sight) *Error {
	e := &Error{Op: opReady, Need: c.need}
	var waits []time.Duration // of the nodes that are ready, or will be
	for i, view := range s.views {
		err := c.nodeError(i, "look", c.verdict(s, i))
		wait := time.Duration(0)
		switch {
		case view == nil || s.list == nil:
		case view.Standing(s.list) == membership.Claimed:
			if wait = membership.ClaimWaits(s.views, s.list); wait > 0 {
				err = nil
			}
		default:
			wait = c.quarantineOf(i, view)
		}
		switch {
		case err != nil:
			e.Unknown++
			e.Nodes = multierror.Append(e.Nodes, err)
			continue
		case wait > 0:
			e.Quarantined++
		default:
			e.Granted++
		}
		waits = append(waits, wait)
	}
	slices.Sort(waits)
	switch {
	case e.Granted >= e.Need:
		return nil
	case len(waits) >= e.Need:
		left := waits[e.Need-1].Round(100 * time.Millisecond)
		e.causes = []error{ErrQuarantined, detail(fmt.Sprintf("for another %v", left))}
	default:
		e.causes = []error{ErrUnavailable}
	}
	return e
}

// noteRefusals notes which nodes do not let this locker in, as a round has found, and has the nodes
// log those whose clients have another list of masters.
func (m *members) noteRefusals(s *sight) {
	for i, view := range s.views {
		switch {
		case view == nil || s.list == nil:
			continue
		case view.Standing(s.list) == membership.Claimed && membership.ClaimWaits(s.views, s.list) > 0:
			continue // its quarantine has begun
		}
		if m.core.verdict(s, i) != nil {
			m.noteKeptOut(i)
			m.core.nodes[i].LogNotLetIn(s.list, scripts.Refusal{Marker: view.Text, Process: view.Process})
		}
	}
}
