package contexts

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
)

func work(ctx context.Context, values ...any) error { return ctx.Err() }

var always = context.Background()

func userFromContext(ctx context.Context) string { return "" }

type service struct {
	ctx    context.Context
	locker *quorum.Locker
}

func inFunctions(ctx context.Context, locker *quorum.Locker, candidate *leader.Candidate, r *http.Request) {
	locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		work(always)                       // want `always does not end when the lock is lost: pass the lock's context`
		work(r.Context())                  // want `r.Context\(\) does not end when the lock is lost: pass the lock's context`
		work(context.TODO())               // want `context.TODO\(\) does not end`
		locker.Lock(ctx, "other")          // want `ctx does not end`
		work(held, work(ctx))              // want `ctx does not end when the lock is lost: pass the lock's context`
		work(context.WithValue(ctx, 1, 2)) // want `context.WithValue\(ctx, 1, 2\) does not end`
		return work(ctx)                   // want `ctx does not end when the lock is lost: pass the lock's context`
	}, "a")
	locker.RWLock("a").Do(ctx, func(_ context.Context, lock *quorum.Lock) error {
		return work(ctx) // want `ctx does not end when the lock is lost: pass the lock's context`
	})
	locker.RWLock("a").RDo(ctx, func(held context.Context, _ *quorum.Lock) error {
		return work(ctx) // want `ctx does not end`
	})
	semaphore.New(locker, "a", 4).Do(ctx, func(held context.Context, _ *quorum.Lock) error {
		parallel := func() error { return work(ctx) } // want `ctx does not end`
		return parallel()
	})
	candidate.Run(ctx, func(term context.Context, _ *leader.Term) error {
		return work(ctx) // want `ctx does not end when the lock is lost: pass the lock's context`
	})
	locker.Do(ctx, func(first context.Context, _ *quorum.Lock) error {
		return locker.Do(first, func(second context.Context, _ *quorum.Lock) error {
			return work(first) // want `first does not end when the lock is lost: pass the lock's context`
		}, "b")
	}, "a")
	locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		context.AfterFunc(held, func() {})
		other, _ := context.WithCancel(ctx)
		if !lock.Valid() {
			return work(ctx)
		}
		return work(other) // want `other does not end`
	}, "a")
	locker.Do(ctx, func(held context.Context, _ *quorum.Lock) error {
		group, inGroup := errgroup.WithContext(ctx)
		group.Go(func() error { return work(inGroup) }) // want `inGroup does not end`
		_, inSecond := errgroup.WithContext(context.WithValue(held, 1, 2))
		work(inSecond)
		return group.Wait()
	}, "a")
	locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		work(ctx)
		ctx = context.Background()
		return work(ctx) // want `^quorumvet: ctx does not end when the lock is lost: pass the lock's context$`
	}, "a")
	wrapped(ctx, func(held context.Context, _ *quorum.Lock) error {
		timeout, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return work(timeout) // want `timeout does not end when the lock is lost: pass the lock's context`
	})
}

// wrapped is a helper of the program's own.
func wrapped(ctx context.Context, fn func(context.Context, *quorum.Lock) error) error { return nil }

func (s *service) named() {
	s.locker.Do(s.ctx, s.method, "a")
	s.locker.Do(s.ctx, function, "a")
}

func (s *service) method(ctx context.Context, lock *quorum.Lock) error {
	work(ctx)
	return work(s.ctx) // want `s.ctx does not end when the lock is lost: pass the lock's context`
}

func function(ctx context.Context, _ *quorum.Lock) error {
	return work(context.Background()) // want `context.Background\(\) does not end when the lock is lost: pass the lock's context`
}

// notUnderLock has the same signature, and no lock: nothing says that Do calls it.
func notUnderLock(ctx context.Context, _ *quorum.Lock) error {
	return work(context.Background())
}

func goodFunctions(ctx context.Context, locker *quorum.Locker, tx *sql.Tx, server *http.Server) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		timeout, cancel := context.WithTimeout(held, time.Second)
		defer cancel()
		work(timeout)
		work(lock.Context())
		userFromContext(ctx)
		work(context.WithValue(held, 1, 2))
		work(context.WithoutCancel(ctx)) // says that it goes on
		ending, stop := context.WithDeadline(context.WithoutCancel(held), lock.Deadline())
		defer stop()
		work(ending)
		go work(ctx)
		defer work(context.Background())
		defer func() { work(ctx) }()
		slog.InfoContext(ctx, "works")
		slog.Default().InfoContext(ctx, "works")
		server.Shutdown(ctx)
		lock.Extend(ctx, time.Second)
		stopped := context.AfterFunc(ctx, func() {})
		stopped()
		func(ctx context.Context) { work(ctx) }(held)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return lock.Unlock(ctx)
	}, "a")
}

// assigned makes a variable from around the function the lock's own.
func assigned(ctx context.Context, locker *quorum.Locker) error {
	var inner context.Context
	return locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		inner = ctx
		return work(inner)
	}, "a")
}

func afterLock(ctx context.Context, locker *quorum.Locker, r *http.Request) error {
	work(ctx)
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return work(ctx)
	}
	defer lock.Unlock(ctx)
	work(context.Background())               // want `context.Background\(\) does not end when the lock is lost: pass the lock's context`
	work(r.Context())                        // not the parent of the lock's
	if _, err = work(ctx), nil; err != nil { // want `ctx does not end`
		return err
	}
	return work(ctx) // want `ctx does not end when the lock is lost: pass the lock's context`
}

func handler(w http.ResponseWriter, r *http.Request, locker *quorum.Locker) {
	lock, err := locker.TryLock(r.Context(), "a")
	switch {
	case err != nil:
		work(r.Context())
		return
	default:
		work(r.Context()) // want `r.Context\(\) does not end when the lock is lost: pass the lock's context`
	}
	lock.Unlock(r.Context())
	work(r.Context())
	work(context.Background())
}

func leads(ctx context.Context, candidate *leader.Candidate) error {
	term, err := candidate.Campaign(ctx)
	if err != nil {
		return err
	}
	defer term.Resign(ctx)
	candidate.IsLeader(ctx)
	work(ctx) // want `ctx does not end when the lock is lost: pass the lock's context`
	return work(term.Context())
}

// locker is what a program's tests replace.
type locker interface {
	Lock(ctx context.Context, names ...string) (*quorum.Lock, error)
}

func throughInterface(ctx context.Context, l locker) error {
	lock, err := l.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	second, err := l.Lock(ctx, "b")
	if err != nil {
		return err
	}
	defer second.Unlock(ctx)
	return work(ctx) // want `ctx does not end`
}

func shortened(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return work(ctx) }) // want `ctx does not end`
	return group.Wait()
}

type contexts struct{ request, service context.Context }

func fields(c contexts, locker *quorum.Locker) error {
	lock, err := locker.Lock(c.request, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(c.request)
	work(c.service)        // not the parent of the lock's
	return work(c.request) // want `c.request does not end`
}

func goodAfterLock(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	work(ctx, "tried", err) // it may have failed
	if err != nil {
		return err
	}
	other, err := locker.Lock(ctx, "b")
	if err != nil {
		return lock.Unlock(ctx)
	}
	defer other.Unlock(ctx)
	work(other.Context())
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = lock.Unlock(short)
	return err
}

// finish may unlock: whoever gets the lock has its context, too.
func finish(ctx context.Context, lock *quorum.Lock) error { return lock.Unlock(ctx) }

func toAnother(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	return finish(ctx, lock)
}

func toAnotherDeferred(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer finish(ctx, lock)
	slog.Info("works", "lock", lock)
	return work(ctx, lock.Token()) // want `ctx does not end`
}

// sameName makes the variable the lock's own.
func sameName(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(context.WithoutCancel(ctx))
	ctx = lock.Context()
	return work(ctx)
}

type job struct{ done chan struct{} }

func (j job) Done() chan struct{} { return j.done }

// underLockYet works while the lock is held: after an end of something else, in a function that calls itself, and where a
// context has not ended.
func underLockYet(ctx context.Context, locker *quorum.Locker, j job) error {
	return locker.Do(ctx, func(held context.Context, lock *quorum.Lock) error {
		_ = func() error { return work(ctx) } // want `ctx does not end`
		var countdown func(int) error
		countdown = func(n int) error {
			if n == 0 {
				return work(ctx) // want `ctx does not end`
			}
			return countdown(n - 1)
		}
		if err := work(ctx, countdown(3)); held.Err() != nil { // want `ctx does not end`
			return err
		} else if err := work(ctx); err != nil { // want `ctx does not end`
			return err
		}
		switch {
		case held.Err() == nil:
			work(ctx) // want `ctx does not end`
		default:
			work(ctx) // want `ctx does not end`
		}
		select {
		case <-j.Done():
			return work(ctx) // want `ctx does not end`
		case <-held.Done():
			return work(ctx)
		}
	}, "a")
}

func underLockLater(ctx context.Context, locker *quorum.Locker) error {
	lock, err := locker.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	again := func() error { return work(ctx) } // want `ctx does not end`
	return again()
}
