package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
)

// docs/from-redislock.md quotes this file.

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

func Example_fromRedislock() {
	masters, err := redistest.StartEmbedded(3)
	if err != nil {
		log.Fatal(err)
	}
	locker, _, stop := openBoth(masters)
	defer stop()
	redis := goredis.NewClient(&goredis.Options{Addr: masters.Masters[0].Addr()})
	defer redis.Close()
	client := redislock.New(redis)
	ctx := context.Background()

	lock, err := asRedislock(ctx, locker, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("as redislock:", lock.Unlock(ctx))
	err = alongsideRedislock(ctx, locker, client, func(context.Context) error {
		_, old := client.Obtain(ctx, "invoice:42", time.Minute, nil)
		_, next := locker.TryLock(ctx, "lock:invoice:42")
		fmt.Println("the old release is kept out:", errors.Is(old, redislock.ErrNotObtained))
		fmt.Println("the next release is kept out:", errors.Is(next, quorum.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// as redislock: <nil>
	// the old release is kept out: true
	// the next release is kept out: true
	// <nil>
}

// What docs/from-redislock.md warns of: at one name redislock fails where quorumlock holds, but quorumlock holds beside
// it, by the masters that redislock does not know.
func TestOneNameForRedislock(t *testing.T) {
	masters := testkit.Real(t, 3)
	locker, _, stop := openBoth(masters)
	defer stop()
	redis := goredis.NewClient(&goredis.Options{Addr: masters.Masters[0].Addr()})
	defer redis.Close()
	client := redislock.New(redis)

	lock, err := locker.Lock(t.Context(), "invoice:42")
	must(t, err)
	_, err = client.Obtain(t.Context(), "invoice:42", time.Minute, nil)
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "WRONGTYPE") && lock.Valid(),
		"redislock at quorumlock's name: %v, valid %v", err, lock.Valid())
	must(t, lock.Unlock(t.Context()))

	old, err := client.Obtain(t.Context(), "invoice:42", time.Minute, nil)
	must(t, err)
	lock, err = locker.Lock(t.Context(), "invoice:42")
	must(t, err)
	must(t, lock.Unlock(t.Context()))
	must(t, old.Release(t.Context()))
}
