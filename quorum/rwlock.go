package quorum

import (
	"context"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// RWLock is a read-write lock over one name: one writer holds it, or any number of readers do. It is safe
// for concurrent use. All RWLocks of a name are the same lock.
//
// The writer is an ordinary lock: [Locker.Lock] of the name waits for the readers, too. A writer that
// waits keeps new readers back, so no writer starves. If it dies, readers get the name again within two
// seconds. Redisson's clients get an error at a name that readers hold.
//
// Within the flow of a lock's context, a reader may read again, and a writer may read and write again.
// Nobody is upgraded: a reader that asks to write gets [ErrInvalid], since two that did would wait for
// each other. A writer becomes a reader by [Lock.Downgrade].
//
// A writer's token is greater than the tokens of all readers before it, and a reader's is greater than the tokens of
// all writers before it. Readers at the same time may have the same token.
type RWLock struct {
	name           string
	writer, reader *Locker
}

// RWLock returns the read-write lock of a name. It asks no node. If the name is not valid, the calls of
// the RWLock return [ErrInvalid].
func (l *Locker) RWLock(name string) *RWLock {
	reader := &Locker{core: l.core, waitlist: l.waitlist, set: l.reads, bad: l.bad}
	return &RWLock{name: name, writer: l, reader: reader}
}

// Lock waits until it holds the name alone: see [Locker.Lock].
func (rw *RWLock) Lock(ctx context.Context) (*Lock, error) { return rw.writer.Lock(ctx, rw.name) }

// TryLock is Lock in one attempt: see [Locker.TryLock]. It keeps no readers back.
func (rw *RWLock) TryLock(ctx context.Context) (*Lock, error) { return rw.writer.TryLock(ctx, rw.name) }

// RLock waits until it holds the name together with other readers. The lock's context, its renewal and the
// errors are as for [Locker.Lock].
func (rw *RWLock) RLock(ctx context.Context) (*Lock, error) { return rw.reader.Lock(ctx, rw.name) }

// TryRLock is RLock in one attempt: see [Locker.TryLock].
func (rw *RWLock) TryRLock(ctx context.Context) (*Lock, error) {
	return rw.reader.TryLock(ctx, rw.name)
}

// Do runs fn while it holds the name alone: see [Locker.Do].
func (rw *RWLock) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) error {
	return rw.writer.Do(ctx, fn, rw.name)
}

// RDo runs fn while it holds the name together with other readers, as Do does.
func (rw *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) error {
	return rw.reader.Do(ctx, fn, rw.name)
}

// isReader reports whether the settings are a reader's.
func (s *settings) isReader() bool { return s.terms.Mode == lease.Read }

// Shared reports whether other readers may hold the name as well: the lock is a reader's, or was
// downgraded.
func (l *Lock) Shared() bool { return l.handle.Hold().Mode() == lease.Read }

// Downgrade makes a reader of the lock's holder, without a gap: no other writer comes between. The holder
// must have finished its writes: once Downgrade is called it counts as a reader, whatever Downgrade
// returns. The lock keeps its token, its context and its renewal.
//
// Downgrade returns nil when as many nodes as the quorum size have confirmed. Otherwise the error is an
// [*Error]. It wraps [ErrUnavailable] if too few nodes confirmed: the lock is held for reading then, and
// the nodes that did not confirm keep other readers out until a renewal reaches them. It wraps [ErrLost],
// [ErrNotHeld] or [ErrClosed] if the lock is not held, or the context's error. Nothing changes if it wraps
// [ErrInvalid]: for a lock over several names, or a writer's that was entered again and not left. A reader
// stays one. Nodes that did not confirm the downgrade of a fixed lease keep readers out until its end.
//
// The masters' user needs a right to sorted sets: a lock whose downgrade is refused for good is lost with
// its lease.
//
// ctx may be the lock's own context: see [Lock.Unlock].
func (l *Lock) Downgrade(ctx context.Context) error {
	t, before := l.handle.Downgrade()
	switch err := l.unusable("downgrade", before); {
	case t != nil:
		return l.confirm(ctx, "downgrade", t)
	case err != nil:
		return err
	case len(l.first.names) > 1 || len(l.slots) > 1:
		return invalidf("downgrade", l.names, "a lock over %d names is not downgraded", max(len(l.first.names), len(l.slots)))
	}
	return invalidf("downgrade", l.names, "the lock was entered again, and its inner handles may write: unlock them first")
}
