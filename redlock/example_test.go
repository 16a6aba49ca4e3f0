package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

// One of three masters is down. Do waits for the lock, runs the function with the lock's context, and unlocks.
func Example() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker, err := redlock.Open(masters.URLs(), masters.Options()...) // yours: redlock.Open(urls)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	masters.Stop(0)
	err = locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("charging once, with a token:", lock.Token() > 0)
		return nil
	}, "invoice:42")
	fmt.Println(err)
	// Output:
	// charging once, with a token: true
	// <nil>
}
