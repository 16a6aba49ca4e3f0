package operator

import (
	"cmp"
	"context"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts"
)

// Inspect returns the state of a name on every node of the Locker. It writes nothing. On a node that has lost its data,
// the name is free until a client has asked it for a grant, and so begun its quarantine. A node that accepts clients with
// another list of masters does not count: its [NodeStatus] has an error that wraps [quorum.ErrMembership]. If fewer nodes
// than the quorum size count, the error is a [*quorum.Error] that wraps [quorum.ErrUnavailable], and the Status has what
// they replied. A name that cannot be locked is [quorum.ErrInvalid], a closed Locker [quorum.ErrClosed].
func Inspect(ctx context.Context, l *quorum.Locker, name string) (Status, error) {
	in := inside.Of(l)
	if err := in.Refuse("inspect", []string{name}); err != nil {
		return Status{}, err
	}
	states, err := inspect(ctx, in, []string{name})
	return states[0], err
}

// InspectSlots returns the state of each slot of the Semaphore, in their order, as [Inspect] does. If too few nodes
// reply for one of them, it returns that error.
func InspectSlots(ctx context.Context, s *semaphore.Semaphore) ([]Status, error) {
	in := inside.Of(s)
	if err := in.Refuse("inspect", nil); err != nil {
		return nil, err
	}
	keys := make([]string, s.Size())
	for slot := range keys {
		keys[slot] = scripts.SlotName(s.Name(), slot)
	}
	return inspect(ctx, in, keys)
}

// inspect returns the states of the names, and the first error.
func inspect(ctx context.Context, in door, names []string) (states []Status, err error) {
	e := in.Waiters().Engine
	nodes := e.Nodes
	read := lockstate.Read(ctx, nodes, names...)
	errs := make([][]error, len(names))
	for k, masters := range read {
		errs[k] = make([]error, len(nodes))
		for i, m := range masters {
			if failed := e.NodeError(i, "inspect", cmp.Or(m.Err, otherList(e.Roster.List(), m.Marker))); failed != nil {
				errs[k][i], masters[i] = failed, lockstate.Master{Node: m.Node, Err: failed}
			}
		}
	}
	lockstate.Identify(ctx, nodes, read)
	for k, name := range names {
		states = append(states, statusOf(name, read[k], e.Quorum))
		err = cmp.Or(err, unavailable(ctx, in, "inspect", name, errs[k]))
	}
	return states, err
}

// otherList returns why a node with that marker does not accept clients with the list, because it accepts clients with
// another one; nil for other nodes.
func otherList(list *scripts.List, marker string) error {
	if list == nil {
		return nil
	}
	m, _ := scripts.ParseMarker(marker) // without one, the node is blank
	view := membership.ReadRefusal(scripts.Seen{Process: m.Process, Marker: marker})
	if view.Relation(list) != membership.Refuses {
		return nil
	}
	return view.Refusal(list)
}
