//go:build unix

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// openOwner opens the file of -owner-file, if it is given. The caller closes it. The error has its exit code. A file
// in use is always reported: the lock may be free while a process of a dead run's job is alive.
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

// takeOwner releases the lock of a run that died, by the file that it left behind, and writes to the file who may get
// the lock now. It reports a dead run's lock that stays until its lease ends: then the file keeps that owner until
// there is a lock. The error has its exit code.
func (l *line) takeOwner(ctx context.Context, locker *quorum.Locker, nodes []*node.Node, report func(error)) error {
	l.record = ownerfile.New(locker.ID(), l.names, l.slots, nodes)
	if dead := l.owner.Record(); dead != nil {
		isOf := func(m lockstate.Master) bool { return ownerfile.IsOf(m.Owner, dead.Owner) }
		isSeen := slices.ContainsFunc(slices.Concat(lockstate.Read(ctx, nodes, dead.Locks()...)...), isOf)
		if err := release(ctx, locker, nodes, *dead); err != nil {
			report(fmt.Errorf("the lock of the owner in %q is not released: %w", l.file, err))
			return nil
		}
		if left := l.mayBeLeft(ctx, nodes); left != nil {
			report(fmt.Errorf("the lock of the owner in %q may be left on %s, and too few other masters grant", l.file,
				strings.Join(left, ", ")))
			return nil
		}
		said := "the masters that answer have no lock of %q, a run that died"
		if isSeen {
			said = "released the lock of %q, a run that died"
		}
		report(fmt.Errorf(said, dead.Owner))
	}
	if err := l.owner.Write(l.record); err != nil {
		return cli.ExitWith(cli.ExitConfiguration, fmt.Errorf("the owner file: %w", err))
	}
	return nil
}

// mayBeLeft returns the masters that may have an owner's lock after a release that succeeded, if nobody gets the lock without
// them: others grant nothing.
func (l *line) mayBeLeft(ctx context.Context, nodes []*node.Node) (names []string) {
	var set quorate.Set
	for i, f := range masters.CheckAll(ctx, nodes) {
		if f.Err != nil || f.NoVote != nil {
			names = append(names, f.Name)
		}
		if !f.IsOK() {
			set |= quorate.Of(i)
		}
	}
	if !masters.Quorum(len(nodes), l.all).Blocks(set) {
		return nil
	}
	return names
}

func release(ctx context.Context, locker *quorum.Locker, nodes []*node.Node, dead ownerfile.Record) error {
	if err := dead.Foreign(nodes); err != nil {
		return err
	}
	slots := semaphore.New(locker, dead.Names[0], dead.Slots)
	switch {
	case !operators.ValidOwner(dead.Owner):
		return releaseAll(ctx, locker, slots, dead)
	case dead.Slots > 0:
		return operator.ForceUnlockOwnerSlots(ctx, slots, dead.Owner, dead.Slot)
	}
	return operator.ForceUnlockOwner(ctx, locker, dead.Owner, dead.Names...)
}

// releaseAll releases the locks of any owner of a locker: the run died before its file had the owner.
func releaseAll(ctx context.Context, locker *quorum.Locker, slots *semaphore.Semaphore, dead ownerfile.Record) error {
	var states []operator.Status
	var err error
	if dead.Slots > 0 {
		states, err = operator.InspectSlots(ctx, slots)
	} else {
		for _, name := range dead.Names {
			state, failed := operator.Inspect(ctx, locker, name)
			states, err = append(states, state), cmp.Or(err, failed)
		}
	}
	for _, state := range states {
		for _, n := range state.Nodes {
			switch {
			case !ownerfile.IsOf(n.Owner, dead.Owner):
			case state.Slot >= 0:
				err = cmp.Or(err, operator.ForceUnlockOwnerSlots(ctx, slots, n.Owner, state.Slot))
			default:
				err = cmp.Or(err, operator.ForceUnlockOwner(ctx, locker, n.Owner, state.Name))
			}
		}
	}
	return err
}
