package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// State is the nodes' state of a name.
type State struct {
	Name  string
	Owner string // that as many nodes keep as the quorum size; empty for none
	// Identity is which process the owner is; zero where no node knows, or for no owner.
	Identity Identity
	Level    int           // of that owner, on one of these nodes
	Token    uint64        // the highest token counter on any node; other names share it: the last token is no higher
	TTL      time.Duration // for how long as many nodes keep that owner, by their clocks; −1 for ever
	Nodes    []NodeState   // in the Locker's order
}

// NodeState is one node's state of a name.
type NodeState struct {
	Node       string
	Err        error         // a *node.Error, or nil; with an error the fields below are zero
	Owner      string        // empty when the name is free there
	Identity   Identity      // of the owner; zero where no node knows it
	Level      int           // as the key has it; the handle's own count decides
	TTL        time.Duration // −1 when the key never expires
	Token      uint64        // the token counter, which other names share
	Quarantine time.Duration // left
}

// Inspect returns the state of a name on every node. It writes nothing. A node that lets in clients
// with another list of masters has no vote, and an error that wraps [ErrMembership]. When fewer nodes answer
// than the quorum size, the error is an [*Error] that wraps [ErrUnavailable], and the State has the
// answers of the others.
func (l *Locker) Inspect(ctx context.Context, name string) (State, error) {
	if err := l.refuse("inspect", []string{name}); err != nil {
		return State{}, err
	}
	c := l.core
	state := State{Name: name, Nodes: make([]NodeState, len(c.nodes))}
	failed := c.each("inspect", func(i int, n *node.Node) error {
		seen := &state.Nodes[i]
		r := inside.Of(n).Pipe(name).Do(ctx, scripts.Inspect(scripts.NewName(name)))
		if seen.Node, seen.Err = n.Name(), r.Err; r.Err == nil {
			reply := r.Reply.Inspect
			if seen.Err = c.nodeError(i, "inspect", c.roster.OtherList(reply.Marker)); seen.Err != nil {
				return seen.Err
			}
			*seen = NodeState{Node: n.Name(), Owner: reply.Owner, Level: reply.Level, TTL: reply.TTL, Token: reply.Token,
				Quarantine: reply.Quarantine()}
		}
		return seen.Err
	})
	l.identify(ctx, &state)
	state.conclude(c.need)
	if failed != nil && len(c.nodes)-failed.Len() < c.need {
		return state, &Error{Op: "inspect", Names: []string{name}, Nodes: failed,
			causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	}
	return state, nil
}

// identify sets which processes the owners are. It asks the nodes that have answered.
func (l *Locker) identify(ctx context.Context, s *State) {
	var owners []string
	for _, n := range s.Nodes {
		if n.Owner != "" {
			owners = append(owners, n.Owner)
		}
	}
	found := l.core.holders.Identities(owners, func(lockers []string) map[string]scripts.Identity {
		var mu sync.Mutex
		all := map[string]scripts.Identity{}
		l.core.each("inspect", func(i int, n *node.Node) error {
			if s.Nodes[i].Err != nil {
				return nil
			}
			r := inside.Of(n).Pipe(s.Name).Do(ctx, scripts.Who(lockers))
			if r.Err != nil { // a user that may not read identities, perhaps
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for k, is := range r.Reply.Who {
				if is != (scripts.Identity{}) {
					all[lockers[k]] = is
				}
			}
			return nil
		})
		return all
	})
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Owner != "" {
			n.Identity = Identity(found[scripts.LockerOf(n.Owner)])
		}
	}
}

// conclude sets the fields that follow from all nodes' states.
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
		s.Owner, s.Identity = owner, nodes[0].Identity
		s.Level = nodes[0].Level
		s.TTL = nthLongest(nodes, need)
	}
}

// nthLongest returns for how long at least need of the nodes keep their grants; −1 for ever.
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

// ForceUnlock deletes the locks at the names, on an operator's word. The holder believes that it
// holds until its next renewal finds out, or until its fixed lease ends: two holders are possible
// until then. ForceUnlock returns nil when as many nodes as the quorum size have no lock at any of
// the names any more. Else it returns an [*Error] for each name that failed, joined; each wraps
// [ErrUnavailable]. A key that is no lock by the rules of [Locker.Inspect] stays, and is an error
// of its node.
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
	// The owners on the nodes come first: each is barred on every node, or a repair would bring the
	// lock back where it was deleted first.
	var mu sync.Mutex
	var owners []scripts.Owner
	seen := map[string]bool{}
	c.each("force", func(i int, n *node.Node) error {
		r := inside.Of(n).Pipe(name.String()).Do(ctx, scripts.Inspect(name))
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
		return inside.Of(n).Pipe(name.String()).Do(ctx, call).Err
	})
	if failed != nil && len(c.nodes)-failed.Len() < c.need {
		return &Error{Op: "force", Names: []string{name.String()}, Nodes: failed,
			causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	}
	return nil
}
