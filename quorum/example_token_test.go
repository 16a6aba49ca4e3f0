package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

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
func ExampleLock_Token() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()
	table := invoices{rows: map[int]invoice{42: {state: "open"}}}

	paused, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer paused.Unlock(ctx)
	masters.FastForward(quorum.DefaultLease) // the process is paused
	next, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock(ctx)
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
