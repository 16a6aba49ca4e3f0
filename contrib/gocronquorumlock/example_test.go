package gocronquorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/quorumlock/quorumlock/contrib/gocronquorumlock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/gocron.md quotes schedule.

// report stands for the work of a job.
type report func(ctx context.Context, token uint64) error

func schedule(
	locker *quorum.Locker, when gocron.JobDefinition, work report, skipped func(error),
) (gocron.Scheduler, error) {
	by, err := gocronquorumlock.New(locker, time.Minute, 2*time.Second,
		gocronquorumlock.WithWait(time.Second))
	if err != nil {
		return nil, err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(by))
	if err != nil {
		return nil, err
	}
	_, err = scheduler.NewJob(when,
		gocron.NewTask(func() error {
			lock, ok := by.Held("report")
			if !ok {
				return errors.New("a run that lost its lock still goes on")
			}
			return work(lock.Context(), lock.Token()) // the context ends when the lock is lost
		}),
		gocron.WithName("report"), // the lock's name, the same in all instances
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			skipped(err)
		})))
	return scheduler, err
}

// Two instances have the same job, and the clock of one is behind. The other runs the job.
func Example() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	ahead, behind := masters.Locker(), masters.Locker() // yours: redlock.Open(urls)
	said := make(chan string, 2)
	for _, locker := range []*quorum.Locker{ahead, behind} {
		work := func(_ context.Context, token uint64) error {
			said <- fmt.Sprint("runs the job, with a token: ", token > 0)
			return nil
		}
		skipped := func(err error) { said <- fmt.Sprint("skips this tick: ", errors.Is(err, quorum.ErrHeld)) }
		now := gocron.OneTimeJob(gocron.OneTimeJobStartImmediately())
		scheduler, err := schedule(locker, now, work, skipped)
		if err != nil {
			log.Fatal(err)
		}
		defer scheduler.Shutdown()
		scheduler.Start()
		fmt.Println(<-said)
	}
	// Output:
	// runs the job, with a token: true
	// skips this tick: true
}
