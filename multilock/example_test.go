package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// Both masters grant the lock. While one of them is down, nothing is locked.
func Example() {
	masters, end := quorumtest.ForExample(2)
	defer end()
	locker, err := multilock.Open(masters.URLs(), masters.Options()...) // yours: multilock.Open(urls)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	err = locker.Do(ctx, func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("locked:", lock.Valid())
		return nil
	}, "invoice:42")
	fmt.Println(err)
	masters.Stop(0)
	_, err = locker.TryLock(ctx, "invoice:42")
	fmt.Println("one is down:", errors.Is(err, quorum.ErrUnavailable))
	// Output:
	// locked: true
	// <nil>
	// one is down: true
}
