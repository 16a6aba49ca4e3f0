package quorumlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// underLock is quoted by docs/beside.md. It stands in a middleware of a queue, which names the work and calls next.
func underLock(ctx context.Context, locker *quorum.Locker, name string, next func(context.Context) error) error {
	once := locker.With(quorum.WithWait(0)) // without waiting: the queue tries again
	return once.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		return next(ctx) // quorum.FromContext(ctx, name) has the token
	}, name)
}

// A queue gives up on a handler that ignores the end of its context, and starts another. That one is refused
// until the first returns.
func Example_besideAQueue() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	var first uint64

	ctx, giveUp := context.WithCancel(context.Background())
	err := underLock(ctx, locker, "order:42", func(ctx context.Context) error {
		lock, _ := quorum.FromContext(ctx, "order:42")
		first = lock.Token()
		giveUp()
		err := underLock(context.Background(), locker, "order:42", nil) // in another worker
		fmt.Println("during the first:", errors.Is(err, quorum.ErrHeld))
		return nil
	})
	fmt.Println("the first:", err)

	err = underLock(context.Background(), locker, "order:42", func(ctx context.Context) error {
		lock, ok := quorum.FromContext(ctx, "order:42")
		fmt.Println("after it, with a higher token:", ok && lock.Token() > first)
		return nil
	})
	fmt.Println("the second:", err)
	// Output:
	// during the first: true
	// the first: <nil>
	// after it, with a higher token: true
	// the second: <nil>
}
