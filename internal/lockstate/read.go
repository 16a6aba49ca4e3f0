// Package lockstate reads what masters have of locks, and judges whether a name is held. It writes
// nothing. It is for people: to exclude others, lock the name instead.
package lockstate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// Master is what one master has of a name. With an error the fields below it are zero.
type Master struct {
	Node string
	Err  error // why it has no vote, or nil
	operators.InspectReply
	Identity   scripts.Identity
	Quarantine time.Duration // left
}

// Read returns each node's state of each name: [i][j] is node j's of names[i]. [Identify] adds the identities of the
// owners.
func Read(ctx context.Context, nodes []*node.Node, names ...string) [][]Master {
	read := make([][]Master, len(names))
	for i := range names {
		read[i] = make([]Master, len(nodes))
	}
	inside.Each(ctx, nodes, func(ctx context.Context, j int, n *node.Node) error {
		for i, name := range names {
			m := &read[i][j]
			r := inside.Of(n).Pipe(name).Do(ctx, operators.Inspect(scripts.NewName(name)))
			if m.Node, m.Err = n.Name(), r.Err; r.Err == nil {
				found := r.Reply.Other.(*operators.InspectReply)
				m.InspectReply, m.Quarantine = *found, found.Quarantine()
			}
		}
		return nil // all are asked
	})
	return read
}

// Identify adds the processes of the owners to the result of [Read], if the nodes know them. A node that has not
// answered Read is down, and fails at once.
func Identify(ctx context.Context, nodes []*node.Node, read [][]Master) {
	var lockers []string
	for _, masters := range read {
		for _, m := range masters {
			if locker := scripts.LockerOf(m.Owner); m.Owner != "" && !slices.Contains(lockers, locker) {
				lockers = append(lockers, locker)
			}
		}
	}
	known := who(ctx, nodes, lockers)
	for _, masters := range read {
		for j, m := range masters {
			if m.Owner != "" {
				masters[j].Identity = known[scripts.LockerOf(m.Owner)]
			}
		}
	}
}

func who(ctx context.Context, nodes []*node.Node, lockers []string) map[string]scripts.Identity {
	var mu sync.Mutex
	known := map[string]scripts.Identity{}
	inside.Each(ctx, nodes, func(ctx context.Context, _ int, n *node.Node) error {
		for some := range slices.Chunk(lockers, scripts.MaxWho) {
			found := inside.Of(n).Pipe("").Do(ctx, scripts.Who(some)).Reply.Who // none if the user may not read them
			mu.Lock()
			for i, is := range found {
				if is != (scripts.Identity{}) {
					known[some[i]] = is
				}
			}
			mu.Unlock()
		}
		return nil // all are asked
	})
	return known
}
