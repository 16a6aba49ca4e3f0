package silent

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/quorum"
)

// Who unlocks.

type session struct {
	ctx    context.Context
	lock   *quorum.Lock
	unlock func(context.Context) error
}

func (s *session) start(ctx context.Context) { s.ctx = ctx }

func stored(ctx context.Context, locker *quorum.Locker) (*session, error) {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return nil, err
	}
	return &session{ctx: lock.Context(), lock: lock, unlock: lock.Unlock}, nil
}

func methodValue(ctx context.Context, locker *quorum.Locker) (func(context.Context) error, error) {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

func table(ctx context.Context, locker *quorum.Locker, names []string) (err error) {
	locks, all := map[string]*quorum.Lock{}, map[*quorum.Lock]bool{}
	defer func() {
		for _, lock := range locks {
			err = errors.Join(err, lock.Unlock(ctx))
		}
	}()
	for _, name := range names {
		lock, err := locker.Lock(ctx, name)
		if err != nil {
			return err
		}
		locks[name] = lock
		second, err := locker.Lock(ctx, name+"/b")
		if err != nil {
			return err
		}
		all[second] = true
	}
	return nil
}

func inGoroutine(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	go func() {
		defer lock.Unlock(ctx)
		work(lock.Context())
	}()
	return nil
}

func inVariable(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	unlock := func() error { return lock.Unlock(context.WithoutCancel(ctx)) }
	if err := work(lock.Context()); err != nil {
		return errors.Join(err, unlock())
	}
	return unlock()
}

func unlessKept(ctx context.Context, locker *quorum.Locker) (_ *quorum.Lock, err error) {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return nil, err
	}
	keep := false
	defer func() {
		if !keep {
			lock.Unlock(ctx)
		}
	}()
	if err := work(lock.Context()); err != nil {
		return nil, err
	}
	keep = true
	return lock, nil
}

func inSelect(ctx context.Context, locker *quorum.Locker, locks chan<- *quorum.Lock) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	select {
	case locks <- lock:
		return nil
	case <-ctx.Done():
		return lock.Unlock(ctx)
	}
}

func waits(ctx context.Context, locker *quorum.Locker, jobs <-chan int) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	for {
		select {
		case job := <-jobs:
			work(lock.Context(), job)
		case <-lock.Context().Done():
			return context.Cause(lock.Context())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func twice(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx) // after a panic
	if err := work(lock.Context()); err != nil {
		return err
	}
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func unlessLost(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	if err := work(lock.Context()); err != nil {
		if !lock.Valid() {
			return errors.Join(err, work(ctx))
		}
		return errors.Join(err, lock.Unlock(ctx))
	}
	return lock.Unlock(ctx)
}

func tellsOfLoss(ctx context.Context, locker *quorum.Locker) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		err := work(held)
		if errors.Is(err, context.Canceled) && lock.Err() != nil {
			work(ctx)
		}
		return err
	}, "a")
}

func asksContext(ctx context.Context, locker *quorum.Locker) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		if held.Err() != nil {
			return work(ctx)
		}
		if err := context.Cause(lock.Context()); err != nil {
			return errors.Join(err, work(ctx))
		}
		select {
		case <-held.Done():
			return work(ctx)
		default:
			return work(held)
		}
	}, "a")
}

func cleansUp(ctx context.Context, locker *quorum.Locker) error {
	return locker.Do(ctx, func(held context.Context, _ *quorum.Lock) error {
		if held.Err() == nil {
			work(held)
		} else {
			work(ctx)
		}
		switch {
		case held.Err() != nil:
			work(ctx)
		}
		<-held.Done()
		work(ctx)
		return work(ctx)
	}, "a")
}

// afterwards keeps functions that run once the lock has ended.
func afterwards(ctx context.Context, locker *quorum.Locker) error {
	var all []func() error
	var last func() error
	err := locker.Do(ctx, func(held context.Context, _ *quorum.Lock) error {
		all = append(all, func() error { return work(ctx) })
		last = func() error { return work(ctx) }
		job := struct{ done func() error }{done: func() error { return work(ctx) }}
		all = append(all, job.done)
		return work(held)
	}, "a")
	for _, each := range append(all, last) {
		err = errors.Join(err, each())
	}
	return err
}
