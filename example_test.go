package quorumlock_test

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// Do waits for the lock, runs the function with the lock's context, and unlocks.
func Example() {
	masters, end := quorumtest.ForExample(3) // in this process
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)

	err := locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("charging once, with a token:", lock.Token() > 0)
		return nil
	}, "invoice:42")
	fmt.Println(err)
	// Output:
	// charging once, with a token: true
	// <nil>
}
