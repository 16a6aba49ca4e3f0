package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// Do locks, runs the function with the lock's context, and unlocks. Its error also reports a lock that was lost on
// the way.
func ExampleLocker_Do() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)

	err := locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("held:", lock.Valid())
		return errors.New("the card was declined")
	}, "invoice:42")
	fmt.Println(err)
	// Output:
	// held: true
	// the card was declined
}

// TryLock attempts once. ErrHeld means that another holder has the lock.
func ExampleLocker_TryLock() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()

	lock, err := locker.TryLock(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	switch other, err := locker.TryLock(ctx, "nightly-report"); {
	case errors.Is(err, quorum.ErrHeld):
		fmt.Println("another worker writes the report")
	case err != nil:
		log.Fatal(err)
	default:
		other.Unlock(ctx)
	}
	// Output:
	// another worker writes the report
}

// Code that is given the lock's context enters the lock again.
func ExampleLocker_Lock_reentry() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	inner, err := locker.Lock(lock.Context(), "invoice:42") // depth 2
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("depth:", inner.Depth())
	fmt.Println(inner.Unlock(ctx), lock.Unlock(ctx), context.Cause(lock.Context()))
	// Output:
	// depth: 2
	// <nil> <nil> released
}

// Two readers hold the name at once.
func ExampleLocker_RWLock() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()

	catalogue := locker.RWLock("catalogue")
	reader, err := catalogue.RLock(ctx) // alongside other readers; Lock is for a writer, who is alone
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Unlock(ctx)
	other, err := catalogue.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock(ctx)
	fmt.Println(reader.Shared(), reader.Valid(), other.Valid())
	// Output:
	// true true true
}

// The lock's context ends when the lock can no longer be trusted, here because a majority of the masters has died.
func ExampleLock_Context() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)

	err := locker.Do(context.Background(), func(ctx context.Context, _ *quorum.Lock) error {
		masters.Stop(0)
		masters.Stop(1)
		masters.FastForward(quorum.DefaultLease)
		<-ctx.Done() // the work: it stops when its context ends
		fmt.Println("lost before the work ended:", errors.Is(context.Cause(ctx), quorum.ErrLost))
		return ctx.Err()
	}, "invoice:42")
	fmt.Println("Do says so, too:", errors.Is(err, quorum.ErrLost))
	// Output:
	// lost before the work ended: true
	// Do says so, too: true
}
