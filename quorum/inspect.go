package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// State is what the nodes say of a name.
type State struct {
	Name  string
	Owner string        // who holds it by the rule; empty when nobody does
	Level int           // of that owner, as far as the nodes know
	Token uint64        // the highest token that any node knows of
	TTL   time.Duration // for how long enough nodes keep that owner, by their clocks; −1 when for ever
	Nodes []NodeState   // in the Locker's order
}

// NodeState is what one node says of a name.
type NodeState struct {
	Node       string
	Err        error         // a *node.Error: the rest is unknown then
	Owner      string        // empty when nobody holds it there
	Level      int           // as written there
	TTL        time.Duration // −1 when the key never expires
	Token      uint64        // the token counter
	Quarantine time.Duration // left
}

// Inspect asks every node who holds a name. It writes nothing. When fewer nodes answer than the rule needs, the error, a *Error,
// wraps ErrUnavailable, and the State holds what the others said.
func (l *Locker) Inspect(ctx context.Context, name string) (State, error) {
	if err := l.refuse("inspect", []string{name}); err != nil {
		return State{}, err
	}
	c := l.core
	state := State{Name: name, Nodes: make([]NodeState, len(c.nodes))}
	failed := c.each("inspect", func(i int, n *node.Node) error {
		seen := &state.Nodes[i]
		r := n.Pipe(name).Do(ctx, scripts.Inspect(scripts.NewName(name)))
		if seen.Node, seen.Err = n.Name(), r.Err; r.Err == nil {
			reply := r.Reply.Inspect
			*seen = NodeState{n.Name(), nil, reply.Owner, reply.Level, reply.TTL, reply.Token, reply.Quarantine}
		}
		return seen.Err
	})
	state.conclude(c.need)
	if failed != nil && len(c.nodes)-failed.Len() < c.need {
		return state, &Error{Op: "inspect", Names: []string{name}, Nodes: failed,
			causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	}
	return state, nil
}

// conclude finds who holds the name by the rule.
func (s *State) conclude(need int) {
	byOwner := map[string][]NodeState{}
	for _, n := range s.Nodes {
		s.Token = max(s.Token, n.Token)
		if n.Owner != "" {
			byOwner[n.Owner] = append(byOwner[n.Owner], n)
		}
	}
	for owner, nodes := range byOwner {
		if len(nodes) < need {
			continue
		}
		s.Owner = owner
		s.Level = nodes[0].Level
		s.TTL = nthLongest(nodes, need)
	}
}

// nthLongest is for how long at least need of the nodes keep their grant.
func nthLongest(nodes []NodeState, need int) time.Duration {
	longest := time.Duration(0)
	for _, candidate := range nodes {
		keeping := 0
		for _, n := range nodes {
			if n.TTL == -1 || candidate.TTL != -1 && n.TTL >= candidate.TTL {
				keeping++
			}
		}
		switch {
		case keeping < need:
		case candidate.TTL == -1:
			return -1
		default:
			longest = max(longest, candidate.TTL)
		}
	}
	return longest
}

// ForceUnlock takes the names away from their holders, on an operator's word. A holder goes on believing that it holds
// until its next renewal finds out, or until its fixed lease ends, so two holders are possible until then. It returns nil when
// as many nodes as the rule needs have let go of each; else the error, a *Error or several of them joined, one for each name
// that failed, wraps ErrUnavailable. A key that is no lock, as Inspect sees it, is left alone, and is an error of its node's.
func (l *Locker) ForceUnlock(ctx context.Context, names ...string) error {
	if err := l.refuse("force", names); err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if err := l.force(ctx, scripts.NewName(name)); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

func (l *Locker) force(ctx context.Context, name scripts.Name) error {
	c := l.core
	// First who is there: those owners are barred on every node, or a repair would bring the lock back where it was deleted first.
	var mu sync.Mutex
	var owners []scripts.Owner
	seen := map[string]bool{}
	c.each("force", func(i int, n *node.Node) error {
		r := n.Pipe(name.String()).Do(ctx, scripts.Inspect(name))
		if r.Err != nil {
			return r.Err
		}
		mu.Lock()
		defer mu.Unlock()
		if owner := r.Reply.Inspect.Owner; owner != "" && !seen[owner] {
			seen[owner] = true
			owners = append(owners, scripts.OwnerOf(owner))
		}
		return nil
	})
	call := scripts.Force(name, owners, c.maxLease)
	failed := c.each("force", func(i int, n *node.Node) error {
		return n.Pipe(name.String()).Do(ctx, call).Err
	})
	if failed != nil && len(c.nodes)-failed.Len() < c.need {
		return &Error{Op: "force", Names: []string{name.String()}, Nodes: failed,
			causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	}
	return nil
}
