package operator

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lockers"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// ForceUnlock deletes the locks at the names, on an operator's word. The holder learns of it with its next
// renewal, or when its fixed lease ends: two holders are possible until then. ForceUnlock returns nil when a
// quorum has no lock at any of the names. Otherwise it returns a [*quorum.Error] for each name that failed, joined;
// each wraps [quorum.ErrUnavailable]. A key that is no lock stays, and is an error of its node. A name that cannot
// be locked is [quorum.ErrInvalid], a closed Locker [quorum.ErrClosed].
func ForceUnlock(ctx context.Context, l *quorum.Locker, names ...string) error {
	in := inside.Of(l)
	if err := in.Refuse("force", names); err != nil {
		return err
	}
	return force(ctx, in, "", names)
}

// ForceUnlockOwner is [ForceUnlock] of one owner's locks only ([quorum.Lock.Owner], [Status].Owner), a reader's too.
// Use it if you know that a process is dead, to free its lock without waiting for the lease. It returns nil even if
// the owner had nothing. The owner cannot come back.
func ForceUnlockOwner(ctx context.Context, l *quorum.Locker, owner string, names ...string) error {
	in := inside.Of(l)
	if err := cmp.Or(in.Refuse("force", names), checkOwner(in, owner)); err != nil {
		return err
	}
	return force(ctx, in, owner, names)
}

// ForceUnlockSlots frees slots of the Semaphore, from 0 to n−1, as [ForceUnlock] frees names. The error wraps
// [quorum.ErrInvalid] for no slots, and for one that the Semaphore does not have.
func ForceUnlockSlots(ctx context.Context, s *semaphore.Semaphore, slots ...int) error {
	in := inside.Of(s)
	if err := checkSlots(in, s, slots); err != nil {
		return err
	}
	return force(ctx, in, "", scripts.SlotNames(s.Name(), slots))
}

// ForceUnlockOwnerSlots frees the slots that the owner holds among these: see [ForceUnlockOwner].
func ForceUnlockOwnerSlots(ctx context.Context, s *semaphore.Semaphore, owner string, slots ...int) error {
	in := inside.Of(s)
	if err := cmp.Or(checkSlots(in, s, slots), checkOwner(in, owner)); err != nil {
		return err
	}
	return force(ctx, in, owner, scripts.SlotNames(s.Name(), slots))
}

func checkOwner(in door, owner string) error {
	if !operators.ValidOwner(owner) {
		return in.Invalid("force", nil, "%.64q is no owner", owner)
	}
	return nil
}

func checkSlots(in door, s *semaphore.Semaphore, slots []int) error {
	if err := in.Refuse("force", nil); err != nil {
		return err
	}
	if len(slots) == 0 {
		return in.Invalid("force", []string{s.Name()}, "no slots")
	}
	for _, slot := range slots {
		if slot < 0 || slot >= s.Size() {
			return in.Invalid("force", []string{s.Name()}, "slot %d is not among %d slots", slot, s.Size())
		}
	}
	return nil
}

// door is what this package needs of a Locker, or of a Semaphore.
type door = lockers.Inside[*quorum.Lock]

// force deletes an owner's locks at the names, or anyone's for "".
func force(ctx context.Context, in door, owner string, names []string) (failed error) {
	nodes := in.Waiters().Engine.Nodes
	maxLease := nodes[0].MaxLease()
	for _, text := range names {
		name, errs := scripts.NewName(text), make([]error, len(nodes))
		masters := lockstate.Read(ctx, nodes, text)[0]
		var call scripts.Call
		if owner != "" {
			call = operators.ForceOwner(name, scripts.OwnerOf(owner), maxLease)
		} else {
			owners, token := holdersOf(masters)
			call = operators.Force(name, owners, token, maxLease)
		}
		inside.Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) error {
			if errs[i] = masters[i].Err; !redisconn.HasCode(errs[i], "QUORUMLOCK") { // no lock: a release of an owner would delete its field
				errs[i] = inside.Of(n).Pipe(text).Do(ctx, call).Err
			}
			return nil // all are asked
		})
		failed = plain.Join(failed, unavailable(ctx, in, "force", text, errs))
	}
	return failed
}

// holdersOf returns who holds the lock on the nodes: each owner is barred on every node, or a repair would bring the lock
// back on nodes that have deleted it already. token bars readers; it is 0 if there are none.
func holdersOf(masters []lockstate.Master) (owners []scripts.Owner, token uint64) {
	isRead := false
	for _, m := range masters {
		if owner := scripts.OwnerOf(m.Owner); m.Owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
		token, isRead = max(token, m.Token), isRead || m.Readers > 0
	}
	if !isRead {
		return owners, 0
	}
	return owners, token
}

// unavailable returns the error of a call that failed on too many nodes, or nil; errs has one for each node.
func unavailable(ctx context.Context, in door, op, name string, errs []error) error {
	e, failed := in.Waiters().Engine, quorate.Set(0)
	for i, err := range errs {
		if err != nil {
			failed, errs[i] = failed|quorate.Of(i), e.NodeError(i, op, err)
		}
	}
	if !e.Quorum.Blocks(failed) {
		return nil
	}
	return in.Failed(op, name, errs, append([]error{quorum.ErrUnavailable}, engine.EndOf(ctx)...)...)
}
