// Package goosequorumlock lets several processes run the migrations of github.com/pressly/goose/v3 under a
// lock of package quorum, on a database that has no advisory locks, or none that outlive the failover of its
// primary:
//
//	by, err := goosequorumlock.New(locker, "migrations of shop") // one name for each database
//	if err != nil {
//		return err
//	}
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(by))
//	if err != nil {
//		return err
//	}
//	_, err = provider.Up(ctx)
//	return err
//
// Give db two connections or more: goose keeps one for the lock. docs/goose.md says what follows when the lock is lost.
package goosequorumlock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"
	"github.com/quorumlock/quorumlock/quorum"
)

// Locker is a [lock.SessionLocker], for [goose.WithSessionLocker]. It is safe for concurrent use by several
// providers.
type Locker struct {
	locker *quorum.Locker
	name   string

	mu   sync.Mutex
	held map[*sql.Conn]session
}

var _ lock.SessionLocker = (*Locker)(nil)

// session is a lock that is held for a connection.
type session struct {
	lock    *quorum.Lock
	unwatch func() bool
}

// New returns a Locker whose lock is at that name: one for each database that is migrated.
//
// The caller owns the quorum locker. Its options say how long a call waits while another process migrates
// (by default until the context ends). The error wraps [quorum.ErrInvalid] for a nil locker, a name that is
// refused, or options that were, and [quorum.ErrClosed] for a locker that was closed.
func New(locker *quorum.Locker, name string) (*Locker, error) {
	if locker == nil {
		return nil, fmt.Errorf("goosequorumlock: %w: the locker is nil", quorum.ErrInvalid)
	}
	if err := locker.Validate(name); err != nil {
		return nil, fmt.Errorf("goosequorumlock: %w", err)
	}
	return &Locker{locker: locker, name: name, held: map[*sql.Conn]session{}}, nil
}

// SessionLock waits until it has the lock. If the lock is lost, the connection is closed at the end of the
// transaction that runs, so that no later migration runs on it. The error is [quorum.Locker.Lock]'s.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	held, err := l.locker.Lock(ctx, l.name)
	if err != nil {
		return err
	}
	unwatch := context.AfterFunc(held.Context(), func() {
		if errors.Is(held.Err(), quorum.ErrLost) {
			conn.Close()
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[conn] = session{held, unwatch}
	return nil
}

// SessionUnlock releases the lock. The error is [quorum.Lock.Unlock]'s: it wraps [quorum.ErrLost] if
// the lock was lost meanwhile, so another process may have migrated alongside this one; and [quorum.ErrNotHeld]
// for a connection without a lock.
func (l *Locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	l.mu.Lock()
	s, ok := l.held[conn]
	delete(l.held, conn)
	l.mu.Unlock()
	if !ok {
		return fmt.Errorf("goosequorumlock: %q: %w", l.name, quorum.ErrNotHeld)
	}
	s.unwatch()
	return s.lock.Unlock(ctx)
}
