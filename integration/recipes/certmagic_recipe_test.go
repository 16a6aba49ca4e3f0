package recipes_test

// docs/recipes.md has its readers copy this file, from here on.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/quorumlock/quorumlock/quorum"
)

// lockedStorage stores in another storage, and locks on the masters.
type lockedStorage struct {
	certmagic.Storage
	locker *quorum.Locker
	jobs   sync.Map // of *job, by name
}

// job is what certmagic does from Lock to Unlock. A process has one job of a name at a time, even if its lock is lost:
// the end of the first would otherwise unlock the second's.
type job struct {
	lock atomic.Pointer[quorum.Lock]
	over chan struct{}
}

func (s *lockedStorage) Lock(ctx context.Context, name string) error {
	for {
		other, err := s.begin(ctx, name, s.locker.Lock)
		if other == nil {
			return err
		}
		select {
		case <-other.over:
		case <-ctx.Done():
			return fmt.Errorf("%w: by this process: %w", quorum.ErrHeld, ctx.Err())
		}
	}
}

func (s *lockedStorage) TryLock(ctx context.Context, name string) (bool, error) {
	other, err := s.begin(ctx, name, s.locker.TryLock)
	if errors.Is(err, quorum.ErrHeld) {
		return false, nil
	}
	return other == nil && err == nil, err
}

// begin locks for a job, or returns the job that has the name.
func (s *lockedStorage) begin(ctx context.Context, name string,
	lock func(context.Context, ...string) (*quorum.Lock, error)) (other *job, err error) {
	j := &job{over: make(chan struct{})}
	if other, taken := s.jobs.LoadOrStore(name, j); taken {
		return other.(*job), nil
	}
	held, err := lock(ctx, "certs:"+name)
	if err != nil {
		s.end(name, j)
		return nil, err
	}
	j.lock.Store(held)
	return nil, nil
}

func (s *lockedStorage) end(name string, j *job) {
	s.jobs.Delete(name)
	close(j.over)
}

func (s *lockedStorage) Unlock(ctx context.Context, name string) error {
	if j, ok := s.jobs.Load(name); ok {
		if held := j.(*job).lock.Swap(nil); held != nil {
			s.end(name, j.(*job))
			return held.Unlock(ctx)
		}
	}
	return quorum.ErrNotHeld
}

// RenewLockLease is called before each attempt at a certificate. A lock renews itself; a lost one is waited for again,
// and certmagic then looks whether another server has stored the certificate.
func (s *lockedStorage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	j, ok := s.jobs.Load(name)
	if !ok {
		return quorum.ErrNotHeld
	}
	held := j.(*job).lock.Load()
	if held == nil {
		return quorum.ErrNotHeld
	}
	loss := held.Err()
	if loss == nil {
		return nil
	}
	again, err := s.locker.Lock(ctx, "certs:"+name)
	if err != nil {
		return fmt.Errorf("%w; again: %w", loss, err)
	}
	if !j.(*job).lock.CompareAndSwap(held, again) { // Unlock was called meanwhile
		return errors.Join(quorum.ErrNotHeld, again.Unlock(ctx))
	}
	return nil
}
