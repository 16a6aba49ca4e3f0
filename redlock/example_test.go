package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/examples"
	"github.com/quorumlock/quorumlock/quorum"
)

// The same flow enters its lock again through the lock's context.
func Example() {
	masters, locker := examples.Start()
	defer masters.Stop()
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	inner, err := locker.Lock(lock.Context(), "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("level:", inner.Level())
	fmt.Println(inner.Unlock(ctx), lock.Unlock(ctx), context.Cause(lock.Context()))
	// Output:
	// level: 2
	// <nil> <nil> released
}

// Do locks, runs the function with the lock's context, and unlocks. Its error also reports a lock that was lost on the way.
func Example_do() {
	masters, locker := examples.Start()
	defer masters.Stop()
	defer locker.Close()

	err := locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("held:", lock.Valid())
		return errors.New("the card was declined")
	}, "invoice:42")
	fmt.Println(err)
	// Output:
	// held: true
	// the card was declined
}

// TryLock attempts once. ErrHeld means that another holder has the lock.
func Example_tryLock() {
	masters, locker := examples.Start()
	defer masters.Stop()
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.TryLock(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	switch other, err := locker.TryLock(ctx, "nightly-report"); {
	case errors.Is(err, quorum.ErrHeld):
		fmt.Println("another worker writes the report")
	case err != nil:
		log.Fatal(err)
	default:
		other.Unlock(ctx)
	}
	// Output:
	// another worker writes the report
}

var errStale = errors.New("stale token")

// invoices stands for a table of a database.
type invoices struct {
	mu   sync.Mutex
	rows map[int]invoice
}

type invoice struct {
	state string
	token uint64 // of the last write
}

// set is one statement: UPDATE invoices SET state = $1, token = $2 WHERE id = $3 AND token <= $2. No row changes when the token
// is lower than one that the row has seen.
func (t *invoices) set(id int, state string, token uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token < t.rows[id].token {
		return errStale
	}
	t.rows[id] = invoice{state, token}
	return nil
}

// A holder that was paused for longer than its lease may write late. The database refuses its token, because the next holder's
// token is greater and has been seen.
func Example_fencingToken() {
	masters, locker := examples.Start(quorum.WithFixedLease(100 * time.Millisecond)) // it is not renewed, as if the process were paused
	defer masters.Stop()
	defer locker.Close()
	ctx := context.Background()
	table := invoices{rows: map[int]invoice{42: {state: "open"}}}

	paused, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	next, err := locker.Lock(ctx, "invoice:42") // waits until the first lease is over
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the token is greater:", next.Token() > paused.Token())
	fmt.Println("paid:", table.set(42, "paid", next.Token()))
	fmt.Println("reminded:", table.set(42, "reminded", paused.Token()))
	fmt.Println("state:", table.rows[42].state)
	// Output:
	// the token is greater: true
	// paid: <nil>
	// reminded: stale token
	// state: paid
}

// The lock's context ends when the lock can no longer be trusted, here because a majority of the masters has died.
func Example_lost() {
	masters, locker := examples.Start(quorum.WithLease(300 * time.Millisecond))
	defer masters.Stop()
	defer locker.Close()

	err := locker.Do(context.Background(), func(ctx context.Context, _ *quorum.Lock) error {
		masters.Masters[0].Kill()
		masters.Masters[1].Kill()
		<-ctx.Done() // the work: it stops when its context ends
		fmt.Println("lost before the work ended:", errors.Is(context.Cause(ctx), quorum.ErrLost))
		return ctx.Err()
	}, "invoice:42")
	fmt.Println("Do says so, too:", errors.Is(err, quorum.ErrLost))
	// Output:
	// lost before the work ended: true
	// Do says so, too: true
}
