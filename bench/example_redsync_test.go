package main

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// docs/from-redsync.md quotes this file.

// openBoth returns a locker and redsync over the masters, and what closes both.
func openBoth(masters *redistest.Fleet) (*quorum.Locker, *redsync.Redsync, func()) {
	locker, err := redlock.Open(masters.URLs(), quorum.WithLogger(slog.New(slog.DiscardHandler)),
		quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(2*time.Second))) // a busy machine stands still
	if err != nil {
		log.Fatal(err)
	}
	sync, closeAll := redsyncOver(masters.URLs())
	return locker, sync, func() {
		closeAll()
		locker.Close()
		masters.Stop()
	}
}

// asRedsync waits, and holds, for as long as a redsync mutex does by default.
func asRedsync(ctx context.Context, locker *quorum.Locker, work func(context.Context) error) error {
	once := locker.With(quorum.WithFixedLease(8*time.Second), quorum.WithWait(5*time.Second))
	return once.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error { return work(ctx) }, "invoice:42")
}

// between is the work of the release that runs alongside the old one: the lock that the old release
// knows is taken last.
func between(ctx context.Context, locker *quorum.Locker, mutex *redsync.Mutex, work func(context.Context) error) error {
	return locker.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		defer mutex.UnlockContext(context.WithoutCancel(ctx))
		return work(ctx)
	}, "lock:invoice:42")
}

func Example_fromRedsync() {
	masters, err := redistest.StartEmbedded(3)
	if err != nil {
		log.Fatal(err)
	}
	locker, sync, stop := openBoth(masters)
	defer stop()
	ctx := context.Background()

	fmt.Println("as redsync:", asRedsync(ctx, locker, func(context.Context) error { return nil }))
	err = between(ctx, locker, sync.NewMutex("invoice:42"), func(context.Context) error {
		old := sync.NewMutex("invoice:42").TryLock()
		_, next := locker.TryLock(ctx, "lock:invoice:42")
		fmt.Println("the old release is kept out:", old != nil)
		fmt.Println("the next release is kept out:", errors.Is(next, quorum.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// as redsync: <nil>
	// the old release is kept out: true
	// the next release is kept out: true
	// <nil>
}

// At one name redsync waits for quorumlock, but quorumlock gives up at once. The stand-ins word the
// error of a key of another type in their own way, so this needs real masters.
func TestOneNameForBoth(t *testing.T) {
	locker, sync, stop := openBoth(testkit.Real(t, 3))
	defer stop()

	lock, err := locker.Lock(t.Context(), "invoice:42")
	must(t, err)
	err = sync.NewMutex("invoice:42").TryLock()
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
