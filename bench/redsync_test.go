package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	goredis "github.com/redis/go-redis/v9"
)

// openBoth returns three masters, and a locker and redsync over them.
func openBoth(t *testing.T) (*redistest.Fleet, *quorum.Locker, *redsync.Redsync) {
	t.Helper()
	masters := testkit.Real(t, 3)
	locker, err := redlock.Open(masters.URLs(), quorum.WithLogger(slog.New(slog.DiscardHandler)),
		quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(2*time.Second))) // a busy machine stands still
	must(t, err)
	t.Cleanup(func() { locker.Close() })
	sync, closeAll := redsyncOver(masters.URLs())
	t.Cleanup(func() { closeAll() })
	return masters, locker, sync
}

// asRedsync waits, and holds, for as long as a redsync mutex does by default.
func asRedsync(ctx context.Context, locker *quorum.Locker, work func(context.Context) error) error {
	once := locker.With(quorum.WithFixedLease(8*time.Second), quorum.WithWait(5*time.Second))
	return once.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error { return work(ctx) }, "invoice:42")
}

// between is the work of the release that runs alongside the old one: the lock that the old release
// knows is taken last. docs/from-redsync.md quotes it.
func between(ctx context.Context, locker *quorum.Locker, mutex *redsync.Mutex, work func(context.Context) error) error {
	return locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		defer mutex.UnlockContext(context.WithoutCancel(ctx))
		return work(ctx)
	}, "lock:invoice:42")
}

func TestFromRedsync(t *testing.T) {
	_, locker, sync := openBoth(t)
	ctx := t.Context()

	must(t, asRedsync(ctx, locker, func(context.Context) error { return nil }))
	must(t, between(ctx, locker, sync.NewMutex("invoice:42"), func(context.Context) error {
		testkit.Check(t, sync.NewMutex("invoice:42").TryLock() != nil, "the old release gets the lock")
		_, next := locker.TryLock(ctx, "lock:invoice:42")
		testkit.Is(t, next, quorum.ErrHeld, "the next release")
		return nil
	}))
}

// At one name redsync waits for quorumlock, but quorumlock gives up at once.
func TestOneNameForBoth(t *testing.T) {
	_, locker, sync := openBoth(t)

	lock := testkit.Got(locker.Lock(t.Context(), "invoice:42"))(t)
	err := sync.NewMutex("invoice:42").TryLock()
	testkit.Check(t, err != nil && lock.Valid(), "redsync locks what quorumlock holds: %v, valid %v", err, lock.Valid())
	must(t, lock.Unlock(t.Context()))

	mutex := sync.NewMutex("invoice:42")
	must(t, mutex.Lock())
	_, err = locker.Lock(t.Context(), "invoice:42")
	testkit.Check(t, errors.Is(err, quorum.ErrPermanent) && strings.Contains(err.Error(), "WRONGTYPE"),
		"quorumlock at redsync's name: %v, want ErrPermanent and WRONGTYPE", err)
	ok, err := mutex.Unlock()
	testkit.Check(t, ok, "redsync has lost its lock: %v", err)
}

// asRedislock waits, and holds, as Obtain does with a TTL of 10 minutes and 50 retries, one each 100 ms.
func asRedislock(ctx context.Context, locker *quorum.Locker, name string) (*quorum.Lock, error) {
	patient := locker.With(quorum.WithMaxHold(10*time.Minute), quorum.WithWait(5*time.Second))
	lock, err := patient.Lock(ctx, name)
	return lock, err
}

// alongsideRedislock is the work of the release that runs alongside the old one.
func alongsideRedislock(ctx context.Context, locker *quorum.Locker, client *redislock.Client, work func(context.Context) error) error {
	every := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	return locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		old, err := client.Obtain(ctx, "invoice:42", 10*time.Minute, every)
		if err != nil {
			return err
		}
		defer old.Release(context.WithoutCancel(ctx))
		return work(ctx)
	}, "lock:invoice:42")
}

// openRedislockBeside returns three masters, a locker over them, and redislock on the first.
func openRedislockBeside(t *testing.T) (*redistest.Fleet, *quorum.Locker, *redislock.Client) {
	t.Helper()
	masters, locker, _ := openBoth(t)
	redis := goredis.NewClient(&goredis.Options{Addr: masters.Masters[0].Addr()})
	t.Cleanup(func() { redis.Close() })
	return masters, locker, redislock.New(redis)
}

func TestFromRedislock(t *testing.T) {
	_, locker, client := openRedislockBeside(t)
	ctx := t.Context()

	lock := testkit.Got(asRedislock(ctx, locker, "report"))(t)
	must(t, lock.Unlock(ctx))
	must(t, alongsideRedislock(ctx, locker, client, func(context.Context) error {
		_, old := client.Obtain(ctx, "invoice:42", time.Minute, nil)
		testkit.Is(t, old, redislock.ErrNotObtained, "the old release")
		_, next := locker.TryLock(ctx, "lock:invoice:42")
		testkit.Is(t, next, quorum.ErrHeld, "the next release")
		return nil
	}))
}

// What docs/from-redislock.md warns of: at one name redislock fails where quorumlock holds, but quorumlock holds beside
// it, by the masters that redislock does not know.
func TestOneNameForRedislock(t *testing.T) {
	masters, locker, client := openRedislockBeside(t)
	has := func(n int64) {
		t.Helper()
		testkit.Eventually(t, "what redislock's master has of the lock", func() bool {
			return testkit.Do(t, masters.Masters[0], "EXISTS", "invoice:42") == n
		})
	}

	lock := testkit.Got(locker.Lock(t.Context(), "invoice:42"))(t)
	has(1) // not at once: the other two are enough
	_, err := client.Obtain(t.Context(), "invoice:42", time.Minute, nil)
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "WRONGTYPE") && lock.Valid(),
		"redislock at quorumlock's name: %v, valid %v", err, lock.Valid())
	must(t, lock.Unlock(t.Context()))
	has(0)

	old := testkit.Got(client.Obtain(t.Context(), "invoice:42", time.Minute, nil))(t)
	lock = testkit.Got(locker.Lock(t.Context(), "invoice:42"))(t)
	must(t, lock.Unlock(t.Context()))
	must(t, old.Release(t.Context()))
}
