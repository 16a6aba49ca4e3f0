package node

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// Hooks are functions that a Node calls to be measured. They run one at a time, in the order of the
// events, in a goroutine of the node's. So a hook that blocks or ends its goroutine delays no call:
// while 8,192 events wait for it, further ones are dropped ([Node.EventsDropped]). A nil hook costs
// nothing and is not called. [Node.Close] waits for the hooks as it does for calls, and so for its whole bound if one of
// them calls it: say go n.Close() there.
type Hooks struct {
	// StateChanged is called when the node is found to be in another state.
	StateChanged func(StateEvent)
	// ScriptEnded is called once for each request to run a script, when its outcome is known.
	// Requests may share one run.
	ScriptEnded func(ScriptEvent)
}

// StateEvent is a change of a node's state. The end of a quarantine is no event: Quarantine gave
// when it would be.
type StateEvent struct {
	Node       string
	State      string        // "up", "quarantined", "down" or "refused": see [Node.State]
	Quarantine time.Duration // left, if the node is in quarantine
	Err        error         // why the node is down or refused
}

// ScriptEvent is one request to run a script on a node.
type ScriptEvent struct {
	Node    string
	Address string // host:port or the socket's path; empty while a node over a pool does not know it
	Script  string // "acquire", "renew", "release", ...
	// Duration is from the call to its outcome: with the wait for the connection and for the calls
	// before it, the round trip, and resends, if the connection died.
	Duration time.Duration
	Err      error // a *Error, or nil, also for a refusal to grant
}

// WithHooks adds functions that are called when the node's state changes and when a script has run
// (default: none). With several WithHooks, all are called, in order.
func WithHooks(h Hooks) Option {
	return func(o *options) {
		o.hooks.StateChanged = inOrder(o.hooks.StateChanged, h.StateChanged)
		o.hooks.ScriptEnded = inOrder(o.hooks.ScriptEnded, h.ScriptEnded)
	}
}

func inOrder[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e E) {
		first(e)
		second(e)
	}
}

// EventsDropped returns how many events no hook was called for, because hooks were too slow.
func (n *Node) EventsDropped() uint64 { return n.events.Dropped() }

// State returns the node's state, as calls and probes have found it. It asks the node nothing.
//
//	unknown      no call has been made yet
//	up           the node answers and grants
//	quarantined  it answers, and grants nothing new
//	down         it does not answer, and is probed
//	refused      it must not be used, is handled as down, and needs a change of the server or the settings
func (n *Node) State() string { return n.log.state() }

// LastError returns the error of the last call that failed, or nil. A call that failed because its context ended does
// not count.
func (n *Node) LastError() *Error { return n.lastError.Load() }

// noteError makes the error of a call, and notes it.
func (n *Node) noteError(op string, err error) error {
	failed := &Error{n.Name(), op, n.server.passing(err)}
	if !isContextError(err) {
		n.lastError.Store(failed)
	}
	return failed
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// timeScript returns a receiver that also passes a call's outcome to the hook.
func (n *Node) timeScript(script string, to pipeline.Receiver) pipeline.Receiver {
	began := time.Now()
	return pipeline.ReceiverFunc(func(r pipeline.Result) {
		e := ScriptEvent{n.Name(), n.server.host(), script, time.Since(began), r.Err}
		n.events.Post(func() { n.server.opts.hooks.ScriptEnded(e) })
		if to != nil {
			to.Done(r)
		}
	})
}
