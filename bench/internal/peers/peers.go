// Package peers puts the library and its rivals behind one method.
//
// A new rival is a file here, and a line where a test of package main opens its sides: openSides in pairs.go,
// openChoices (and choiceNames of the plot), or openEtcdSides for servers of its own. For handoffs it also needs
// open in package handoff. facts.go tells its version, and method.md what is particular about it.
package peers

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/node"
)

// Peer locks and unlocks over the same masters as its rivals. It is safe for concurrent use.
type Peer interface {
	Name() string
	// Pair locks an uncontended name and unlocks it. After an error the name may stay locked for a
	// while.
	Pair(ctx context.Context, name string) error
	Close() error
}

// timeout bounds dials and replies of every peer alike: the library's default.
const timeout = node.DefaultTimeout

func openNodes(urls []string) ([]*node.Node, error) {
	var nodes []*node.Node
	for _, url := range urls {
		// The masters were started just now: they hold no lock.
		n, err := node.Open(url, node.WithoutQuarantine(), node.WithLogger(silent))
		if err != nil {
			return nil, errors.Join(err, closeNodes(nodes))
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func closeNodes(nodes []*node.Node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

func majority(n int) int { return n/2 + 1 }
