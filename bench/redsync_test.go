package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
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
