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

// openOwner opens the file of -owner-file, if it is given. The caller closes it. The error has its exit code. That the
// file is in use is reported in any case: the lock may be free, and a process of a dead run's job be alive.
func (l *line) openOwner(report func(error)) (err error) {
	if l.file == "" {
		return nil
	}
	l.owner, err = ownerfile.Open(l.file, true)
	switch {
	case errors.Is(err, ownerfile.ErrInUse):
		if l.heldCode == cli.ExitOK {
			report(err)
		}
		return cli.ExitWith(l.heldCode, err)
	case err != nil:
		return cli.ExitWith(cli.ExitConfiguration, err)
	}
	return nil
}

// releaseDead releases the lock of a run that died, by the file that it left behind. It reports that, or why it fails: the
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
		err = fmt.Errorf("the lock of the owner in %q is not released: %w", l.file, err)
	} else {
		err = fmt.Errorf("released the lock of %q, a run that died", dead.Owner)
	}
	report(err)
}
