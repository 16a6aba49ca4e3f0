// Package certmagicquorumlock lets several processes share the certificates of
// github.com/caddyserver/certmagic: in any storage, under locks of package quorum. One process orders a
// certificate, and the others wait for it and load it.
//
//	storage, err := certmagicquorumlock.New(&certmagic.FileStorage{Path: dir}, locker, "certs:")
//	if err != nil {
//		return err
//	}
//	config := certmagic.New(cache, certmagic.Config{Storage: storage})
//	return config.ManageSync(ctx, []string{"www.example.com"})
//
// docs/certmagic.md says what follows when a process or the masters fail.
package certmagicquorumlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/quorumlock/quorumlock/quorum"
)

// Storage is a [certmagic.Storage] that stores in another one, and locks on the masters. It also is a
// [certmagic.TryLocker] and a [certmagic.LockLeaseRenewer]. Its methods are safe for concurrent use, if those
// of the other storage are.
type Storage struct {
	certmagic.Storage

	locker *quorum.Locker
	prefix string

	mu   sync.Mutex
	jobs map[string]*job // by certmagic's name
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// job is what a caller does from Lock to Unlock. The names say nothing about the caller: if a second job of
// this process began when the first one's lock is lost, the first one's Unlock would release the second's.
// So there is one job of a name at a time.
type job struct {
	lock *quorum.Lock  // nil while it waits for its first
	over chan struct{} // is closed at its end
}

// New returns a Storage that keeps everything in the given one, whose own locks are not used. The names of
// the locks are the prefix and certmagic's names, such as "issue_cert_example.com". The prefix is one for
// each storage: with the same prefix, processes with different storages would wait for each other.
//
// The caller owns the locker, which may serve other locks, and closes it when certmagic has stopped. Its wait
// is replaced, because certmagic bounds it by contexts. A certificate that cannot be had yet is tried again
// for up to 30 days under one lock, so give New no locker with a fixed lease or a max hold.
//
// The error wraps [quorum.ErrInvalid] for a nil storage or locker, a prefix that no name may have, and a
// locker whose options were refused, and [quorum.ErrClosed] for one that was closed.
func New(storage certmagic.Storage, locker *quorum.Locker, prefix string) (*Storage, error) {
	switch {
	case storage == nil:
		return nil, fmt.Errorf("certmagicquorumlock: %w: the storage is nil", quorum.ErrInvalid)
	case locker == nil:
		return nil, fmt.Errorf("certmagicquorumlock: %w: the locker is nil", quorum.ErrInvalid)
	}
	locker = locker.With(quorum.WithWait(math.MaxInt64))
	if err := locker.Validate(prefix + "name"); err != nil {
		return nil, fmt.Errorf("certmagicquorumlock: %w", err)
	}
	return &Storage{Storage: storage, locker: locker, prefix: prefix, jobs: map[string]*job{}}, nil
}

// Lock waits until it has the lock, or ctx ends. The lock is held, and renewed, until Unlock, also when ctx
// has ended. A second Lock of the name waits for Unlock, even if the first one's lock has been lost.
//
// The error is [quorum.Locker.Lock]'s, or wraps [quorum.ErrHeld] and ctx's.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		j, began := s.begin(name)
		if began {
			return s.acquire(ctx, name, j, s.locker.Lock)
		}
		select {
		case <-j.over:
		case <-ctx.Done():
			return s.failed(name, fmt.Errorf("%w: by this process: %w", quorum.ErrHeld, ctx.Err()))
		}
	}
}

// TryLock makes one attempt, and reports whether it has the lock. The error is nil if another has it,
// otherwise [quorum.Locker.TryLock]'s.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	j, began := s.begin(name)
	if !began {
		return false, nil
	}
	err := s.acquire(ctx, name, j, s.locker.TryLock)
	if errors.Is(err, quorum.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock, even if ctx has ended. The error is [quorum.Lock.Unlock]'s: it wraps
// [quorum.ErrLost] if the lock had been lost, so another process may have worked alongside this one; and
// [quorum.ErrNotHeld] without a Lock before.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	j := s.jobs[name]
	if j == nil || j.lock == nil {
		s.mu.Unlock()
		return s.failed(name, quorum.ErrNotHeld)
	}
	s.endLocked(name, j)
	s.mu.Unlock()
	return j.lock.Unlock(ctx)
}

// RenewLockLease returns nil if the lock is held: it renews itself, so the duration does not matter.
//
// If the lock has been lost, RenewLockLease waits for it anew, as Lock does. Certmagic calls it before each
// attempt at a certificate, and then looks in the storage for one that another process has obtained
// meanwhile. If it gets none, the error wraps [quorum.ErrLost] and what [quorum.Locker.Lock] returned, and
// the next call waits again. Without a Lock before, the error wraps [quorum.ErrNotHeld].
func (s *Storage) RenewLockLease(ctx context.Context, lockKey string, _ time.Duration) error {
	s.mu.Lock()
	j := s.jobs[lockKey]
	if j == nil || j.lock == nil {
		s.mu.Unlock()
		return s.failed(lockKey, quorum.ErrNotHeld)
	}
	loss := j.lock.Err()
	s.mu.Unlock()
	if loss == nil {
		return nil
	}
	lock, err := s.locker.Lock(ctx, s.prefix+lockKey)
	if err != nil {
		return s.failed(lockKey, fmt.Errorf("%w; again: %w", loss, err))
	}
	s.mu.Lock()
	over := s.jobs[lockKey] != j // Unlock was called meanwhile
	if !over {
		j.lock = lock
	}
	s.mu.Unlock()
	if over {
		return s.failed(lockKey, errors.Join(quorum.ErrNotHeld, lock.Unlock(ctx)))
	}
	return nil
}

// String describes the storage, for certmagic's log: what is stored in, and how the names of the locks begin.
func (s *Storage) String() string {
	in, ok := s.Storage.(fmt.Stringer)
	if !ok {
		return fmt.Sprintf("%T, locks %q", s.Storage, s.prefix)
	}
	return fmt.Sprintf("%v, locks %q", in, s.prefix)
}

// begin begins a job of the name, unless there is one.
func (s *Storage) begin(name string) (j *job, began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[name]; j != nil {
		return j, false
	}
	j = &job{over: make(chan struct{})}
	s.jobs[name] = j
	return j, true
}

// acquire gets the lock of a job that has begun, or ends the job.
func (s *Storage) acquire(ctx context.Context, name string, j *job,
	by func(context.Context, ...string) (*quorum.Lock, error)) (err error) {
	var lock *quorum.Lock
	defer func() { // also when code of the caller's panics, such as a hook: certmagic recovers its jobs
		s.mu.Lock()
		defer s.mu.Unlock()
		if lock == nil {
			s.endLocked(name, j)
			return
		}
		j.lock = lock
	}()
	lock, err = by(ctx, s.prefix+name)
	return err
}

func (s *Storage) endLocked(name string, j *job) {
	delete(s.jobs, name)
	close(j.over)
}

func (s *Storage) failed(name string, err error) error {
	return fmt.Errorf("certmagicquorumlock: %q: %w", s.prefix+name, err)
}
