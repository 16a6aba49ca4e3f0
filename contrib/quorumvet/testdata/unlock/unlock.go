package unlock

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
)

func work(ctx context.Context) (int, error) { return 0, ctx.Err() }

func early(ctx context.Context, locker *quorum.Locker, skip bool) error {
	lock, err := locker.Lock(ctx, "a") // want `^quorumvet: the lock is still held after line 22: unlock it there, or move the work into Do$`
	if err != nil {
		return err
	}
	if skip {
		return nil
	}
	defer lock.Unlock(ctx)
	_, err = work(lock.Context())
	return err
}

// laterError returns the error of the work in the variable of the lock's error.
func laterError(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.TryLock(ctx, "a") // want `the lock is still held after line 38`
	if errors.Is(err, quorum.ErrHeld) || err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	if _, err = work(lock.Context()); err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func never(ctx context.Context, rw *quorum.RWLock, slots *semaphore.Semaphore, locker *quorum.Locker, candidate *leader.Candidate) {
	if lock, err := rw.RLock(ctx); err == nil { // want `the lock is still held`
		work(lock.Context())
	}
	if lock, err := rw.TryRLock(ctx); err == nil { // want `the lock is still held`
		work(lock.Context())
	}
	if slot, err := slots.Acquire(ctx, 2); err == nil { // want `the lock is still held`
		work(slot.Context())
	}
	if slot, err := slots.TryAcquire(ctx); err == nil { // want `the lock is still held`
		work(slot.Context())
	}
	if lock, err := locker.TakeOver(ctx, "ticket"); !(err != nil) { // want `the lock is still held`
		work(lock.Context())
	}
	if term, err := candidate.Campaign(ctx); err == nil { // want `the lock is still held`
		work(term.Context())
	}
}

func inLoop(ctx context.Context, locker *quorum.Locker, names []string) error {
	for _, name := range names {
		lock, err := locker.Lock(ctx, name) // want `the lock is still held after line 70`
		if err != nil {
			return err
		}
		if _, err := work(lock.Context()); err != nil {
			continue
		}
		lock.Unlock(ctx)
	}
	return nil
}

func roundsEnd(ctx context.Context, locker *quorum.Locker, names []string, done func(...any) bool) error {
	for i := 0; i < len(names); i++ {
		lock, err := locker.Lock(ctx, names[i]) // want `the lock is still held after line 84`
		if err != nil {
			continue
		}
		if done(i) {
			lock.Unlock(ctx)
			continue
		}
	}
rounds:
	for _, name := range names {
		if name != "" {
			lock, err := locker.Lock(ctx, name) // want `the lock is still held after line 98`
			if err != nil {
				return err
			}
			for range 3 {
				if done() {
					done()
					continue rounds
				}
			}
			lock.Unlock(ctx)
		}
	}
	for {
		lock, err := locker.TryLock(ctx, "a") // want `the lock is still held after line 117`
		if errors.Is(err, quorum.ErrHeld) {
			continue
		}
		switch {
		case err != nil:
			return err
		case done():
			lock.Unlock(ctx)
			continue
		}
		done()
	}
}

func inTry(ctx context.Context, locker *quorum.Locker) {
	if _, err := locker.TryLock(ctx, "a"); err == nil { // want `the lock is still held`
		log.Print("locked")
	}
}

func discarded(ctx context.Context, locker *quorum.Locker, rw *quorum.RWLock, candidate *leader.Candidate, l handle) error {
	locker.Lock(ctx, "a")                            // want `^quorumvet: nobody can unlock this lock: keep it and unlock it, or call Do$`
	rw.TryRLock(ctx)                                 // want `nobody can unlock this lock`
	l.Lock()                                         // want `nobody can unlock this lock`
	if _, err := locker.Lock(ctx, "a"); err != nil { // want `nobody can unlock this lock`
		log.Print(err)
	}
	_, _ = candidate.Campaign(ctx) // want `nobody can unlock this lock`
	func() {
		_, failure := locker.Lock(ctx, "a", "b") // want `nobody can unlock this lock`
		log.Print(failure)
	}()
	_, err := locker.Lock(ctx, "a") // want `nobody can unlock this lock`
	return err
}

func inLiteral(ctx context.Context, locker *quorum.Locker) func() {
	return func() {
		lock, err := locker.Lock(ctx, "a") // want `the lock is still held`
		if err != nil {
			return
		}
		work(lock.Context())
	}
}

func eitherReason(ctx context.Context, locker *quorum.Locker, skip bool) error {
	lock, err := locker.Lock(ctx, "a") // want `the lock is still held`
	if err != nil || skip {
		return err
	}
	return lock.Unlock(ctx)
}

// byHand unlocks on one of two paths.
func byHand(ctx context.Context, locker *quorum.Locker, skip bool) error {
	lock, err := locker.TryLock(ctx, "a") // want `the lock is still held after line 174`
	if err != nil && !errors.Is(err, quorum.ErrHeld) {
		return err
	} else if err != nil {
		return nil
	}
	if _, err := work(lock.Context()); err != nil {
		lock.Unlock(ctx)
		return err
	}
	if skip {
		return nil
	}
	return lock.Unlock(ctx)
}

func inDefault(ctx context.Context, locker *quorum.Locker, done chan struct{}) error {
	lock, err := locker.TryLock(ctx, "a") // want `the lock is still held after line 190`
	switch {
	case err == nil:
	default:
		return err
	}
	select {
	case <-done:
		return lock.Unlock(ctx)
	default:
		return nil
	}
}

// From here on nothing is reported.

// handle has a lock of its own, with a context of its own.
type handle interface {
	Lock() (*quorum.Lock, error)
}

func withoutContext(ctx context.Context, h handle) error {
	lock, err := h.Lock()
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func notNil(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if !(err == nil) {
		return err
	}
	return lock.Unlock(ctx)
}

type server struct {
	locker *quorum.Locker
	lock   *quorum.Lock
	locks  []*quorum.Lock
}

func (s *server) stored(ctx context.Context) (err error) {
	if s.lock, err = s.locker.Lock(ctx, "a"); err != nil {
		return err
	}
	lock, err := s.locker.Lock(ctx, "b")
	if err != nil {
		return err
	}
	s.locks = append(s.locks, lock)
	return nil
}

func returned(ctx context.Context, locker *quorum.Locker) (*quorum.Lock, bool, error) {
	lock, err := locker.Lock(ctx, "a")
	if errors.Is(err, quorum.ErrHeld) && ctx.Err() == nil {
		return nil, false, nil
	}
	return lock, err == nil, err
}

func namedResult(ctx context.Context, locker *quorum.Locker) (lock *quorum.Lock, err error) {
	lock, err = locker.Lock(ctx, "a")
	return
}

func deferredBefore(ctx context.Context, locker *quorum.Locker) error {
	var lock *quorum.Lock
	var err error
	defer func() {
		if lock != nil {
			lock.Unlock(ctx)
		}
	}()
	lock, err = locker.Lock(ctx, "a")
	return err
}

func inClosure(ctx context.Context, locker *quorum.Locker, cleanup func(func())) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	cleanup(func() { lock.Unlock(ctx) })
	second, err := locker.Lock(ctx, "b")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.Unlock(ctx)) }()
	_, err = work(second.Context())
	return err
}

func allPaths(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.TryLock(ctx, "a")
	switch {
	case errors.Is(err, quorum.ErrHeld):
		return nil
	case err != nil:
		return err
	}
	ticket, err := lock.HandOver(ctx)
	if err != nil {
		return errors.Join(err, lock.Unlock(ctx))
	}
	_ = ticket
	return nil
}

func switchOnError(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.TryLock(ctx, "a")
	switch err {
	case nil:
		return lock.Unlock(ctx)
	}
	return err
}

func byLock(ctx context.Context, locker *quorum.Locker) {
	lock, _ := locker.TryLock(ctx, "a")
	if lock == nil {
		return
	}
	defer lock.Unlock(ctx)
	work(lock.Context())
}

func exits(ctx context.Context, locker *quorum.Locker) {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := work(lock.Context()); err != nil {
		os.Exit(1)
	}
	lock.Unlock(ctx)
}

func asked(ctx context.Context, locker *quorum.Locker) bool {
	_, err := locker.TryLock(ctx, "a")
	return errors.Is(err, quorum.ErrHeld) // a holder is expected
}

func askedBefore(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.TryLock(ctx, "a")
	isHeld := errors.Is(err, quorum.ErrHeld)
	if isHeld {
		return nil
	} else if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func fromContext(ctx context.Context) uint64 {
	lock, ok := quorum.FromContext(ctx, "a")
	if !ok {
		return 0
	}
	return lock.Token()
}

// nilFirst compares the other way round.
func nilFirst(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if nil != err {
		return err
	}
	return lock.Unlock(ctx)
}

func heldIfValid(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a") // want `the lock is still held after line`
	if err != nil {
		return err
	}
	if lock.Valid() {
		return nil
	}
	return lock.Unlock(ctx)
}

// waits leaves by a case that is not the last.
func waits(ctx context.Context, locker *quorum.Locker, done chan struct{}) error {
	lock, err := locker.Lock(ctx, "a") // want `the lock is still held after line 372:`
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return lock.Unlock(ctx)
	}
}
