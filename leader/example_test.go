package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// Every instance of a service runs this. One of them leads, until its context ends; then another one does.
func ExampleCandidate_Run() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker()                            // yours: redlock.Open(urls)
	ctx, stop := context.WithCancel(context.Background()) // a service's: signal.NotifyContext

	candidate, err := leader.New(locker, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	err = candidate.Run(ctx, func(ctx context.Context, t *leader.Term) error {
		fmt.Println("leads:", t.Valid(), candidate.IsLeader(ctx))
		stop() // as SIGTERM would
		<-ctx.Done()
		fmt.Println("still valid, so that the work can end in good order:", t.Valid())
		return ctx.Err()
	})
	fmt.Println(err, "-", candidate.IsLeader(context.Background()))
	// Output:
	// leads: true <nil>
	// still valid, so that the work can end in good order: true
	// context canceled - leader: not the leader
}

// A lost term ends its context. Run campaigns again once the function has returned.
func ExampleCandidate_Run_lost() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker(quorum.WithLease(500 * time.Millisecond))

	candidate, err := leader.New(locker, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	var tokens []uint64
	err = candidate.Run(context.Background(), func(ctx context.Context, t *leader.Term) error {
		tokens = append(tokens, t.Token())
		if len(tokens) == 2 {
			return nil // this ends Run: the term is held
		}
		if err := operator.ForceUnlock(ctx, locker, "scheduler"); err != nil { // as an outage of the masters would
			return err
		}
		<-ctx.Done()
		fmt.Println("lost:", errors.Is(context.Cause(ctx), quorum.ErrLost))
		return ctx.Err()
	})
	fmt.Println("led again, with a greater token:", tokens[1] > tokens[0], err)
	// Output:
	// lost: true
	// led again, with a greater token: true <nil>
}

// Campaign is for a program with a loop of its own.
func ExampleCandidate_Campaign() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()

	candidate, err := leader.New(locker, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	term, err := candidate.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	now, err := candidate.Leader(ctx)
	fmt.Println("I lead:", now.ID == candidate.ID(), err)
	fmt.Println("resigned:", term.Resign(ctx), context.Cause(term.Context()))
	// Output:
	// I lead: true <nil>
	// resigned: <nil> released
}

// Observe shows who leads, and when nobody does.
func ExampleCandidate_Observe() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker(quorum.WithLabel("10.0.0.7:8080"))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	candidate, err := leader.New(locker, "scheduler", leader.WithObserveInterval(10*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	var term *leader.Term
	for now, err := range candidate.Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println("it is not known who leads:", err)
		case now.ID != "":
			fmt.Println(now.Identity.Label, "leads; that is this process:", now.ID == candidate.ID())
			term.Resign(ctx)
		case term == nil:
			fmt.Println("nobody leads")
			if term, err = candidate.Campaign(ctx); err != nil {
				log.Fatal(err)
			}
		default:
			fmt.Println("nobody leads now")
			stop()
		}
	}
	// Output:
	// nobody leads
	// 10.0.0.7:8080 leads; that is this process: true
	// nobody leads now
}

// A scheduler that runs in every instance asks its elector before each job. The candidate leads in
// the background.
func ExampleCandidate_IsLeader() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx, stop := context.WithCancel(context.Background())

	candidate, err := leader.New(locker, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	var asked interface { // of gocron.WithDistributedElector
		IsLeader(context.Context) error // nil: this instance runs the job
	} = candidate
	fmt.Println("before:", asked.IsLeader(ctx))
	leads, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- candidate.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
			close(leads)
			<-ctx.Done() // it leads for as long as it can
			return ctx.Err()
		})
	}()
	<-leads
	fmt.Println("while it leads:", asked.IsLeader(ctx))
	stop()
	fmt.Println("after:", <-ended, "-", asked.IsLeader(ctx))
	// Output:
	// before: leader: not the leader
	// while it leads: <nil>
	// after: context canceled - leader: not the leader
}
