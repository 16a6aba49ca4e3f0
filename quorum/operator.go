package quorum

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// Inspect returns the state of a name on every node. It writes nothing. A node that accepts clients with another list
// of masters does not count: its [NodeStatus] has an error that wraps [ErrMembership]. If fewer nodes than the quorum
// size count, the error is an [*Error] that wraps [ErrUnavailable], and the Status has what they replied. A name that
// cannot be locked is [ErrInvalid], a closed Locker [ErrClosed].
func (l *Locker) Inspect(ctx context.Context, name string) (Status, error) {
	if err := l.refuse("inspect", []string{name}); err != nil {
		return Status{}, err
	}
	states, err := l.core.inspect(ctx, []string{name})
	return states[0], err
}

// inspect returns the states of the names, and the first error.
func (c *core) inspect(ctx context.Context, names []string) (states []Status, err error) {
	read := lockstate.Read(ctx, c.Nodes, names...)
	errs := make([][]error, len(names))
	for k, masters := range read {
		errs[k] = make([]error, len(c.Nodes))
		for i, m := range masters {
			if failed := c.NodeError(i, "inspect", cmp.Or(m.Err, c.Roster.OtherList(m.Marker))); failed != nil {
				errs[k][i], masters[i] = failed, lockstate.Master{Node: m.Node, Err: failed}
			}
		}
	}
	lockstate.Identify(ctx, c.Nodes, read)
	for k, name := range names {
		states = append(states, c.stateOf(name, read[k]))
		err = cmp.Or(err, c.unavailable(ctx, "inspect", name, errs[k]))
	}
	return states, err
}

// unavailable returns the error of a call that failed on too many nodes, or nil.
func (c *core) unavailable(ctx context.Context, op, name string, errs []error) error {
	e := &Error{Op: op, Names: []string{name}}
	for i, err := range errs {
		e.addNodes(c.NodeError(i, op, err))
	}
	if e.Nodes == nil || len(errs)-e.Nodes.Len() >= c.Need {
		return nil
	}
	e.causes = append([]error{ErrUnavailable}, contextError(ctx)...)
	if semaphore, slot, isSlot := scripts.ParseSlot(name); isSlot {
		e.Names, e.slots = []string{semaphore}, []int{slot}
	}
	return e
}

// ForceUnlock deletes the locks at the names, on an operator's word. The holder learns of it with its next
// renewal, or when its fixed lease ends: two holders are possible until then. ForceUnlock returns nil when a
// quorum has no lock at any of the names. Otherwise it returns an [*Error] for each name that failed, joined;
// each wraps [ErrUnavailable]. A key that is no lock stays, and is an error of its node. A name that cannot
// be locked is [ErrInvalid], a closed Locker [ErrClosed].
func (l *Locker) ForceUnlock(ctx context.Context, names ...string) error {
	if err := l.refuse("force", names); err != nil {
		return err
	}
	return l.core.forceAll(ctx, names, l.core.forceAnyone)
}

// ForceUnlockOwner is [Locker.ForceUnlock] of one owner's locks only ([Lock.Owner], [Status].Owner), a reader's too.
// Use it if you know that a process is dead, to free its lock without waiting for the lease. It returns nil even if
// the owner had nothing. The owner cannot come back.
func (l *Locker) ForceUnlockOwner(ctx context.Context, owner string, names ...string) error {
	if err := l.refuse("force", names); err != nil {
		return err
	}
	return l.core.forceOwner(ctx, owner, names)
}

func (c *core) forceOwner(ctx context.Context, owner string, names []string) error {
	if !scripts.ValidOwner(owner) {
		return invalidf("force", nil, "%.64q is no owner", owner)
	}
	return c.forceAll(ctx, names, func(name scripts.Name, _ []lockstate.Master) scripts.Call {
		return scripts.ForceOwner(name, scripts.OwnerOf(owner), c.maxLease)
	})
}

func (c *core) forceAll(ctx context.Context, names []string, by func(scripts.Name, []lockstate.Master) scripts.Call) error {
	var failed error
	for _, text := range names {
		name, errs := scripts.NewName(text), make([]error, len(c.Nodes))
		masters := lockstate.Read(ctx, c.Nodes, text)[0]
		call := by(name, masters)
		inside.Each(ctx, c.Nodes, func(ctx context.Context, i int, n *node.Node) error {
			if errs[i] = masters[i].Err; !redisconn.HasCode(errs[i], "QUORUMLOCK") { // no lock: a release of an owner would delete its field
				errs[i] = inside.Of(n).Pipe(text).Do(ctx, call).Err
			}
			return nil // all are asked
		})
		failed = oneLine(failed, c.unavailable(ctx, "force", text, errs))
	}
	return failed
}

// forceAnyone returns the call that deletes the lock at a name.
func (c *core) forceAnyone(name scripts.Name, masters []lockstate.Master) scripts.Call {
	// First get the owners on the nodes: each is barred on every node, or a repair would bring the lock back on nodes
	// that have deleted it already. The token that bars readers must be known before, too.
	var owners []scripts.Owner
	token, isRead := uint64(0), false
	for _, m := range masters {
		if owner := scripts.OwnerOf(m.Owner); m.Owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
		token, isRead = max(token, m.Token), isRead || m.Readers > 0
	}
	if !isRead {
		token = 0
	}
	return scripts.Force(name, owners, token, c.maxLease)
}
