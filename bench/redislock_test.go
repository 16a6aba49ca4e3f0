package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
)

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
