// Package silent has ordinary programs. Nothing is reported.
package silent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/quorum"
)

func work(ctx context.Context, values ...any) error { return ctx.Err() }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock: %w", err)
}

// code is as status.Code of gRPC.
func code(err error) int { return len(fmt.Sprint(err)) }

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

func wrappedUnderOtherName(ctx context.Context, locker *quorum.Locker) error {
	lock, failure := locker.Lock(ctx, "a")
	err := fmt.Errorf("a: %w", failure)
	if errors.Is(err, quorum.ErrHeld) {
		return err
	}
	return lock.Unlock(ctx)
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

func byCode(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if code(err) != 0 {
		return err
	}
	return lock.Unlock(ctx)
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

func whileValid(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	for lock.Valid() {
		work(lock.Context())
	}
	return lock.Err()
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

// test is a *testing.T.
type test interface {
	Cleanup(func())
	Fatal(...any)
}

func helper(t test, ctx context.Context, locker *quorum.Locker) *session {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock(context.Background()) })
	return &session{ctx: lock.Context()}
}

// Contexts that may be the lock's.

type request struct{ ctx context.Context }

func do(ctx context.Context, locker *quorum.Locker, s *session, jobs chan request, fill func(context.Context, *request)) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		r := request{ctx: held}
		work(r.ctx)
		p := &request{held}
		work(p.ctx)
		var q request
		q.ctx = held
		work(q.ctx)
		fill(held, &q)
		work(q.ctx)
		s.start(held)
		work(s.ctx)
		all := []request{{ctx: held}}
		work(all[0].ctx)
		for _, r := range all {
			work(r.ctx)
		}
		next := <-jobs
		work(next.ctx)
		var other context.Context = held
		work(other)
		third := context.Context(held)
		work(third)
		named, cancel := context.WithTimeoutCause(context.WithValue(other, 1, 2), time.Second, nil)
		defer cancel()
		work(named)
		group, inGroup := errgroup.WithContext(held)
		group.Go(func() error { return work(inGroup) })
		both(ctx, held)
		release(ctx, lock)
		web := (&http.Request{}).WithContext(held)
		work(web.Context())
		work(withUser(held))
		return group.Wait()
	}, "a")
}

func merged(ctx context.Context, locker *quorum.Locker) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		merged, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
		second, end := context.WithCancel(ctx)
		go func() {
			defer end()
			<-held.Done()
		}()
		third, end := context.WithTimeout(ctx, time.Second)
		context.AfterFunc(held, end)
		return work(merged, work(second), work(third))
	}, "a")
}

// inGroup ends a group's context with the lock.
func inGroup(ctx context.Context, locker *quorum.Locker) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		group, inGroup := errgroup.WithContext(ctx)
		group.Go(func() error {
			<-held.Done()
			return context.Cause(held)
		})
		group.Go(func() error { return work(inGroup) })
		second, cancel := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			for lock.Valid() {
				time.Sleep(time.Second)
			}
			cancel()
		})
		return errors.Join(work(second), group.Wait())
	}, "a")
}

// changed has the lock's context, or may have it.
func changed(ctx context.Context, locker *quorum.Locker, detached bool) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		inner := ctx
		inner = held
		if err := work(inner); err != nil {
			return err
		}
		attempt := 1
		if detached && attempt > 0 {
			held = context.Background()
		}
		ctx, cancel := context.WithTimeout(held, time.Second)
		defer cancel()
		last := context.Background()
		if !detached {
			last = held
		}
		return work(held, work(ctx), work(last))
	}, "a")
}

func both(ctx, held context.Context) error { return errors.Join(ctx.Err(), held.Err()) }

func release(ctx context.Context, lock *quorum.Lock) error { return lock.Unlock(ctx) }

func withUser(ctx context.Context) context.Context { return ctx }

func user(ctx context.Context) string { return fmt.Sprint(ctx.Value(1)) }

type logger struct{}

func (logger) Info(ctx context.Context, message string) error { return ctx.Err() }

func locked(ctx context.Context, locker *quorum.Locker, log logger) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		lock.Unlock(ending)
	}()
	log.Info(ctx, user(ctx))
	time.AfterFunc(time.Second, func() { work(ctx) })
	group, inGroup := errgroup.WithContext(lock.Context())
	group.Go(func() error { return work(inGroup) })
	server := &http.Server{}
	server.RegisterOnShutdown(func() { server.Shutdown(context.Background()) })
	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	defer work(ending)
	{
		ctx := lock.Context()
		work(ctx)
	}
	return group.Wait()
}

func sameName(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(lock.Context())
	group.Go(func() error { return work(ctx) })
	return group.Wait()
}

// Stamps.

func twoTransactions(ctx context.Context, db *sql.DB, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	tx.QueryRow("SELECT a FROM b")
	if err := tx.Commit(); err != nil {
		return err
	}
	if tx, err = db.BeginTx(ctx, nil); err != nil {
		return err
	}
	return fence.Stamp(ctx, tx, "a", token)
}

func replica(ctx context.Context, tx *sql.Tx, replica *sql.DB, token uint64) error {
	replica.QueryRowContext(ctx, "SELECT a FROM b")
	tx.QueryRowContext(ctx, "SELECT a FROM b WHERE c = 1 FOR NO KEY UPDATE")
	return fence.Stamp(ctx, tx, "a", token)
}
