package gocronquorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/quorumlock/quorumlock/gocronquorumlock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// docs/gocron.md quotes schedule, and docs/leader.md quotes lead.

// report stands for the work of a job.
type report func(ctx context.Context, token uint64) error

func schedule(
	locker *quorum.Locker, when gocron.JobDefinition, work report, skipped func(error),
) (gocron.Scheduler, error) {
	by, err := gocronquorumlock.New(locker, time.Minute, 2*time.Second,
		gocronquorumlock.WithWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(by))
	if err != nil {
		return nil, err
	}
	_, err = scheduler.NewJob(when,
		gocron.NewTask(func() error {
			lock, _ := by.Held("report")
			return work(lock.Context(), lock.Token()) // the context ends when the lock is lost
		}),
		gocron.WithName("report"), // the lock's name, the same in all instances
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			skipped(err)
		})))
	return scheduler, err
}

// Two instances have the same job. One of them runs it.
func Example() {
	masters, err := redistest.StartEmbedded(3)
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()
	ran, skipped := make(chan uint64), make(chan error)
	for range 2 {
		locker, err := redlock.Open(masters.URLs(), quorum.WithNodeOptions(node.WithoutQuarantine()))
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		work := func(ctx context.Context, token uint64) error { ran <- token; return nil }
		now := gocron.OneTimeJob(gocron.OneTimeJobStartImmediately())
		scheduler, err := schedule(locker, now, work, func(err error) { skipped <- err })
		if err != nil {
			log.Fatal(err)
		}
		defer scheduler.Shutdown()
		scheduler.Start()
	}
	fmt.Println("one runs, with a token:", <-ran > 0)
	fmt.Println("the other skips this tick:", errors.Is(<-skipped, quorum.ErrHeld))
	// Output:
	// one runs, with a token: true
	// the other skips this tick: true
}

func lead(ctx context.Context, candidate *leader.Candidate) (gocron.Scheduler, error) {
	go candidate.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
		<-ctx.Done() // leads for as long as it can
		return ctx.Err()
	})
	return gocron.NewScheduler(gocron.WithDistributedElector(candidate))
}

// One of two instances leads. Its scheduler runs every job; the other's skips them.
func Example_elector() {
	masters, err := redistest.StartEmbedded(3)
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()
	locker, err := redlock.Open(masters.URLs(), quorum.WithNodeOptions(node.WithoutQuarantine()))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ran := make(chan string)
	for _, instance := range []string{"the first", "the second"} {
		candidate, err := leader.New(locker, "scheduler")
		if err != nil {
			log.Fatal(err)
		}
		scheduler, err := lead(ctx, candidate)
		if err != nil {
			log.Fatal(err)
		}
		defer scheduler.Shutdown()
		for candidate.IsLeader(ctx) != nil && instance == "the first" {
			time.Sleep(time.Millisecond)
		}
		_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
			select {
			case ran <- instance:
			default:
			}
		}))
		if err != nil {
			log.Fatal(err)
		}
		scheduler.Start()
	}
	fmt.Println(<-ran, <-ran, <-ran)
	// Output: the first the first the first
}
