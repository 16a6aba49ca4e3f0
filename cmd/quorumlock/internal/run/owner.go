//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// openOwner opens the file of -owner-file, if it is given. The caller closes it. The error has its exit code.
func (l *line) openOwner() (err error) {
	if l.file == "" {
		return nil
	}
	l.owner, err = ownerfile.Open(l.file, true)
	switch {
	case errors.Is(err, ownerfile.ErrInUse):
		return cli.ExitWith(l.heldCode, err)
	case err != nil:
		return cli.ExitWith(cli.ExitConfiguration, err)
	}
	return nil
}

// releaseDead releases the lock of a run that died, by the file that it left behind. If that fails it reports why: the
// lock then ends with its lease.
func (l *line) releaseDead(ctx context.Context, locker *quorum.Locker, nodes []*node.Node, report func(error)) {
	dead := l.owner.Record()
	if dead == nil {
		return
	}
	err := dead.Foreign(nodes)
	switch {
	case err != nil:
	case dead.Slot >= 0:
		err = locker.Semaphore(dead.Names[0], scripts.MaxSlots).ForceUnlockOwner(ctx, dead.Owner, dead.Slot)
	default:
		err = locker.ForceUnlockOwner(ctx, dead.Owner, dead.Names...)
	}
	if err != nil {
		report(fmt.Errorf("the lock of the owner in %q is not released: %w", l.file, err))
	}
}
