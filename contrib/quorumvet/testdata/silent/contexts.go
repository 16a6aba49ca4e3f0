package silent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/quorum"
)

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

func mergedBefore(ctx context.Context, locker *quorum.Locker) error {
	before, cancel := context.WithCancel(ctx)
	defer cancel()
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		defer context.AfterFunc(held, cancel)()
		return work(before)
	}, "a")
}

func mergedLocks(ctx context.Context, locker *quorum.Locker) error {
	before, cancel := context.WithCancel(ctx)
	defer cancel()
	lock, err := locker.Lock(before, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	go func() {
		<-lock.Context().Done()
		cancel()
	}()
	return work(before)
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
