package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/usage.md quotes oncePerMinute.

func oncePerMinute(ctx context.Context, locker *quorum.Locker, report func(context.Context) error) error {
	once := locker.With(quorum.WithMinHold(50 * time.Second)) // for a tick every minute
	lock, err := once.TryLock(ctx, "report")
	if errors.Is(err, quorum.ErrHeld) {
		return nil // another instance has this tick
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return report(lock.Context())
}

// The second instance's tick comes later than the first one's, and after its job has ended.
func Example_oncePerPeriod() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	for _, instance := range []string{"the first", "the second"} {
		err := oncePerMinute(context.Background(), locker, func(context.Context) error {
			fmt.Println(instance, "runs the job")
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: the first runs the job
}
