package redlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func Example() {
	fleet, err := redistest.StartEmbedded(3) // three masters in this process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Stop()
	ctx := context.Background()

	// Masters that are new wait in quarantine; a test does not want that.
	locker, err := redlock.Open(fleet.URLs(), quorum.WithNodeOptions(node.WithoutQuarantine()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	lock, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryLock(ctx, "invoice:42")
	fmt.Println("another flow:", errors.Is(err, quorum.ErrHeld))
	inner, err := locker.Lock(lock.Context(), "invoice:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the same flow:", inner.Level())
	fmt.Println(inner.Unlock(ctx), lock.Unlock(ctx), context.Cause(lock.Context()))
	// Output:
	// another flow: true
	// the same flow: 2
	// <nil> <nil> released
}
