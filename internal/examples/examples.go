// Package examples starts what the examples of several packages run on.
package examples

import (
	"log"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Start starts three masters in this process, and returns them with a locker over them. New masters
// wait in quarantine, and what happens to masters is logged; an example does not want that.
func Start(opts ...quorum.Option) (*redistest.Fleet, *quorum.Locker) {
	masters, err := standin.Start(3)
	if err != nil {
		log.Fatal(err)
	}
	return masters, Open(masters, opts...)
}

// Open returns a further locker over masters, as another process has one.
func Open(masters *redistest.Fleet, opts ...quorum.Option) *quorum.Locker {
	opts = append(opts, quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(10*time.Second)),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	locker, err := redlock.Open(masters.URLs(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}
