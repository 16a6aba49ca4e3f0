package quorum

import (
	"context"
)

// RWLock is a read-write lock over one name: one writer holds it, or any number of readers do. It is safe
// for concurrent use. All RWLocks of a name are the same lock.
//
// The writer is an ordinary lock: [Locker.Lock] of the name waits for the readers, too. A waiting writer keeps new
// readers back, so no writer starves. If it dies, readers get the name again within two seconds. Redisson's clients
// get an error at a name that readers hold.
//
// Code that is given the lock's context may read again, and as a writer also write again. There is
// no upgrade: a reader that asks to write gets [ErrInvalid], since two of them would wait for each
// other. A writer becomes a reader by [Lock.Downgrade].
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
	return &RWLock{name: name, writer: l, reader: l.reads}
}

// Lock waits until it holds the name alone: see [Locker.Lock].
func (rw *RWLock) Lock(ctx context.Context) (*Lock, error) { return rw.writer.Lock(ctx, rw.name) }

// TryLock is Lock without waiting for a release: see [Locker.TryLock]. It keeps no readers back.
func (rw *RWLock) TryLock(ctx context.Context) (*Lock, error) { return rw.writer.TryLock(ctx, rw.name) }

// RLock waits until it holds the name together with other readers. The lock's context, its renewal and the
// errors are as for [Locker.Lock].
func (rw *RWLock) RLock(ctx context.Context) (*Lock, error) { return rw.reader.Lock(ctx, rw.name) }

// TryRLock is RLock without waiting for a release: see [Locker.TryLock].
func (rw *RWLock) TryRLock(ctx context.Context) (*Lock, error) {
	return rw.reader.TryLock(ctx, rw.name)
}

// Do runs fn while it holds the name alone: see [Locker.Do].
func (rw *RWLock) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) error {
	return rw.writer.Do(ctx, fn, rw.name)
}

// RDo runs fn while it holds the name together with other readers: see [Locker.Do].
func (rw *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) error {
	return rw.reader.Do(ctx, fn, rw.name)
}
