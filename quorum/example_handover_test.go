package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/examples"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/recipes.md quotes the other functions of this file.

// jobs is a queue between the web servers and the workers.
type jobs chan job

type job struct{ Report, Ticket string }

func (q jobs) Publish(_ context.Context, j job) error {
	q <- j
	return nil
}

func accept(ctx context.Context, locker *quorum.Locker, queue jobs, report string) error {
	lock, err := locker.TryLock(ctx, report)
	if err != nil {
		return err // errors.Is(err, quorum.ErrHeld): it is being made already
	}
	ticket, err := lock.HandOver(ctx)
	if err != nil {
		return errors.Join(err, lock.Unlock(ctx))
	}
	return queue.Publish(ctx, job{Report: report, Ticket: ticket})
}

func makeReport(ctx context.Context, locker *quorum.Locker, conn redis.Conn, j job) error {
	lock, err := locker.TakeOver(ctx, j.Ticket)
	if errors.Is(err, quorum.ErrLost) {
		return nil // the job came twice, or too late: another request may have started over
	}
	if err != nil {
		return err // not acknowledged: the queue delivers the job again
	}
	defer lock.Unlock(ctx)
	_, err = fence.StampKey(lock.Context(), conn, j.Report+":token", lock.Token(),
		fence.Command{Name: "SET", Args: []any{j.Report, "ready"}})
	return err
}

// A web server locks a report and hands the lock over. While the job waits in the queue, no other web
// server accepts the report; a worker goes on with it.
func ExampleLock_HandOver() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	web, worker := masters.Locker(), masters.Locker() // of two processes
	conn := examples.Resource()                       // yours: redis.Dial, to the server that holds the reports
	defer conn.Close()
	ctx, queue := context.Background(), make(jobs, 1)

	if err := accept(ctx, web, queue, "report:7"); err != nil {
		log.Fatal(err)
	}
	err := accept(ctx, web, queue, "report:7")
	fmt.Println("accepted once more:", !errors.Is(err, quorum.ErrHeld))
	j := <-queue
	fmt.Println(makeReport(ctx, worker, conn, j), makeReport(ctx, worker, conn, j))
	report, err := redis.String(conn.Do("GET", "report:7"))
	fmt.Println(report, err)
	// Output:
	// accepted once more: false
	// <nil> <nil>
	// ready <nil>
}
