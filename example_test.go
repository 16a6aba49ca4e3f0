package quorumlock_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Do waits for the lock, runs the function with the lock's context, and unlocks.
func Example() {
	masters, err := redistest.StartEmbedded(3) // yours: redis://10.0.0.1 and so on
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()

	// Without these options new masters wait in quarantine for 30 s, and the log says so.
	locker, err := redlock.Open(masters.URLs(), quorum.WithNodeOptions(node.WithoutQuarantine()),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("charging once, with a token:", lock.Token() > 0)
		return nil
	}, "invoice:42")
	fmt.Println(err)
	// Output:
	// charging once, with a token: true
	// <nil>
}
