package gocronquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/leader.md quotes lead.

func lead(ctx context.Context, candidate *leader.Candidate) (gocron.Scheduler, error) {
	go candidate.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
		<-ctx.Done() // leads for as long as it can
		return ctx.Err()
	})
	return gocron.NewScheduler(gocron.WithDistributedElector(candidate))
}

// One of two instances leads. Its scheduler runs every job; the other's skips them.
func Example_elector() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
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
