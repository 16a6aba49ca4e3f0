// Package tusdquorumlock lets several servers of github.com/tus/tusd/v2 serve the same uploads, under a lock
// of package quorum for each upload.
//
//	uploads, err := tusdquorumlock.New(locker)
//	if err != nil {
//		return nil, err
//	}
//	composer := handler.NewStoreComposer()
//	filestore.New(dir).UseIn(composer) // a store that all servers share
//	uploads.UseIn(composer)
//	return handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
//
// A client whose connection broke comes back, perhaps to another server, while the first one still waits for
// its bytes under the lock. The second server asks the first to let go ([quorum.WithRequest]), and tusd there
// stops the upload and keeps what has arrived. So the client goes on after a moment, and not after a timeout
// or a lease.
//
// docs/tusd.md says what follows when a server or the masters fail.
package tusdquorumlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/tus/tusd/v2/pkg/handler"
)

// prefix begins the names of the locks.
const prefix = "tusd:"

// Locker is a [handler.Locker]. It is safe for concurrent use.
type Locker struct{ locker *quorum.Locker }

var _ handler.Locker = (*Locker)(nil)

// New returns a Locker. The lock of an upload is at the name "tusd:" and the upload's id.
//
// The caller owns the quorum locker, which may serve other locks, and closes it after the server has been
// shut down. Two of its settings are replaced: the wait, because tusd bounds it by its AcquireLockTimeout, and
// the retry times, so that a request that is missed is repeated within half a second. With a
// [quorum.WithMinHold] no upload would resume before that is over.
//
// The error wraps [quorum.ErrInvalid] for a nil locker and for one whose options were refused, and
// [quorum.ErrClosed] for one that was closed.
func New(locker *quorum.Locker) (*Locker, error) {
	if locker == nil {
		return nil, fmt.Errorf("tusdquorumlock: %w: the locker is nil", quorum.ErrInvalid)
	}
	l := &Locker{locker.With(quorum.WithRequest(), quorum.WithWait(math.MaxInt64),
		quorum.WithRetry(10*time.Millisecond, 100*time.Millisecond))}
	if err := l.locker.Validate(prefix + "id"); err != nil {
		return nil, fmt.Errorf("tusdquorumlock: %w", err)
	}
	return l, nil
}

// UseIn adds the Locker to a composer, as the lockers of tusd do.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns the lock of an upload, which is not held yet. The error wraps [quorum.ErrInvalid] for an
// id that is too long, and [quorum.ErrClosed] for a locker that was closed.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	name := prefix + id
	if err := l.locker.Validate(name); err != nil {
		return nil, err
	}
	return &uploadLock{locker: l.locker, name: name}, nil
}

// uploadLock is the lock of an upload, for one request.
type uploadLock struct {
	locker *quorum.Locker
	name   string

	mu   sync.Mutex
	held *quorum.Lock // nil while it is not held
	end  func()       // of the parent of the lock's context
}

// Lock waits until it has the lock, and asks the holder to let go. requestUnlock is called once, when
// another server or request asks for the lock, or when the lock is lost: then another may have the upload.
//
// The error is [handler.ErrLockTimeout] when ctx has ended, otherwise [quorum.Locker.Lock]'s, if waiting is
// pointless.
func (l *uploadLock) Lock(ctx context.Context, requestUnlock func()) error {
	// tusd ends ctx when Lock has returned. The lock's context goes on.
	parent, end := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, end)
	held, err := l.locker.Lock(parent, l.name)
	inTime := keep()
	switch {
	case err == nil && inTime:
		l.mu.Lock()
		l.held, l.end = held, end
		l.mu.Unlock()
		go watch(held, held.Requested(), requestUnlock)
		return nil
	case err == nil:
		err = held.Unlock(context.WithoutCancel(ctx))
	}
	end()
	if ctx.Err() != nil && !errors.Is(err, quorum.ErrPermanent) {
		return handler.ErrLockTimeout
	}
	return err
}

// watch ends with the lock.
func watch(held *quorum.Lock, requested <-chan struct{}, requestUnlock func()) {
	select {
	case <-requested:
	case <-held.Context().Done():
	}
	if held.Err() != quorum.ErrReleased {
		requestUnlock()
	}
}

// Unlock releases the lock. The error is [quorum.Lock.Unlock]'s: it wraps [quorum.ErrLost] if the lock
// had been lost, and [quorum.ErrNotHeld] without a Lock before.
func (l *uploadLock) Unlock() error {
	l.mu.Lock()
	held, end := l.held, l.end
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		return fmt.Errorf("tusdquorumlock: %q: %w", l.name, quorum.ErrNotHeld)
	}
	defer end()
	return held.Unlock(context.Background())
}
