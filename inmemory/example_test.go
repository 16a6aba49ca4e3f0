package inmemory_test

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/inmemory"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// serve is a service of one process, which needs no server.
func serve(ctx context.Context, work func(ctx context.Context, lock *quorum.Lock) error) error {
	master, err := inmemory.Master()
	if err != nil {
		return err
	}
	defer master.Close() // after the locker
	locker, err := redlock.New([]*node.Node{master})
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(ctx, work, "invoice:42")
}

func Example() {
	fmt.Println(serve(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("charging, with a token:", lock.Token() > 0)
		return nil
	}))
	// Output:
	// charging, with a token: true
	// <nil>
}
