// Package silent has ordinary programs. Nothing is reported.
package silent

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

func work(ctx context.Context, values ...any) error { return ctx.Err() }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock: %w", err)
}

func succeeded(err error) bool { return err == nil }

// The error of a lock.

func wrapped(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	err = wrap(err)
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func wrappedInCheck(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err := wrap(err); err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return work(lock.Context())
}

func inBool(ctx context.Context, locker *quorum.Locker) {
	lock, err := locker.Lock(ctx, "a")
	ok := err == nil
	if !ok {
		return
	}
	defer lock.Unlock(ctx)
	work(lock.Context())
}

func inBoolLater(ctx context.Context, locker *quorum.Locker) {
	lock, err := locker.TryLock(ctx, "a")
	isLocked := false
	if err == nil {
		isLocked = true
	}
	work(ctx)
	if isLocked {
		lock.Unlock(ctx)
	}
}

func lockInBool(ctx context.Context, locker *quorum.Locker) {
	lock, _ := locker.TryLock(ctx, "a")
	held := lock != nil
	if held {
		lock.Unlock(ctx)
	}
}

func byFunction(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if succeeded(err) {
		defer lock.Unlock(ctx)
		return work(lock.Context())
	}
	return err
}

func byComparison(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.TryLock(ctx, "a")
	if err == quorum.ErrHeld {
		return nil
	}
	if failed := err != nil; failed {
		return err
	}
	return lock.Unlock(ctx)
}

func byType(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.TryLock(ctx, "a")
	var held *quorum.Error
	if errors.As(err, &held) {
		return held
	}
	switch err := err.(type) {
	case nil:
		return lock.Unlock(ctx)
	default:
		return err
	}
}

func onlySuccess(ctx context.Context, locker *quorum.Locker) error {
	if lock, err := locker.TryLock(ctx, "a"); err == nil {
		defer lock.Unlock(ctx)
		return work(lock.Context())
	} else if !errors.Is(err, quorum.ErrHeld) {
		return err
	}
	return nil
}

func measured(ctx context.Context, locker *quorum.Locker, observe func(context.Context, time.Duration)) error {
	started := time.Now()
	lock, err := locker.Lock(ctx, "a")
	observe(ctx, time.Since(started))
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return work(lock.Context())
}

func retried(ctx context.Context, locker *quorum.Locker) (err error) {
	for attempt := range 3 {
		lock, lockErr := locker.TryLock(ctx, "a")
		if lockErr != nil && attempt < 2 && errors.Is(lockErr, quorum.ErrHeld) {
			time.Sleep(time.Second)
			continue
		} else if lockErr != nil {
			return lockErr
		}
		err = work(lock.Context())
		if unlockErr := lock.Unlock(ctx); unlockErr != nil || err == nil {
			return unlockErr
		}
	}
	return err
}

func untilHeld(ctx context.Context, locker *quorum.Locker) (lock *quorum.Lock) {
	for lock == nil {
		l, err := locker.TryLock(ctx, "a")
		if err == nil {
			lock = l
		}
	}
	return lock
}

func ends(ctx context.Context, locker *quorum.Locker) {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		panic(err)
	}
	log.Fatal(work(lock.Context()))
}
