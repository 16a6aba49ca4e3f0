package quorumtest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

// biller is a service that locks.
type biller struct {
	locker *quorum.Locker
	pay    func(ctx context.Context) error
}

func (b *biller) charge(ctx context.Context, invoice string) string {
	lock, err := b.locker.TryLock(ctx, invoice)
	switch {
	case errors.Is(err, quorum.ErrHeld):
		return "left to the process that has it"
	case err != nil:
		return "try again later"
	}
	defer lock.Unlock(ctx)
	if err := b.pay(lock.Context()); errors.Is(err, quorum.ErrLost) {
		return "stopped: the lock is lost"
	}
	return "charged"
}

func pay(context.Context) error { return nil }

// A service that opens its locker itself is given the masters' URLs and options.
func ExampleStart() {
	masters, end := quorumtest.ForExample(3) // in a test: masters := quorumtest.Start(t, 3)
	defer end()
	locker, err := redlock.Open(masters.URLs(), masters.Options()...)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	service := biller{locker, pay}
	fmt.Println(service.charge(context.Background(), "invoice:42"))
	// Output:
	// charged
}

// The path of a service that does not get the lock.
func ExampleMasters_HoldElsewhere() {
	masters, end := quorumtest.ForExample(3) // in a test: masters := quorumtest.Start(t, 3)
	defer end()
	ctx := context.Background()
	service := biller{masters.Locker(), pay}
	held := masters.HoldElsewhere("invoice:42")
	fmt.Println(service.charge(ctx, "invoice:42"))
	held.Unlock(ctx)
	fmt.Println(service.charge(ctx, "invoice:42"))
	// Output:
	// left to the process that has it
	// charged
}

// The path of a service that loses the lock in the middle of its work. The test's stand-in for the
// work finds the lock by its context.
func ExampleMasters_Lose() {
	masters, end := quorumtest.ForExample(3) // in a test: masters := quorumtest.Start(t, 3)
	defer end()
	service := biller{masters.Locker(), func(ctx context.Context) error {
		lock, _ := quorum.FromContext(ctx, "invoice:42")
		masters.Lose(lock)
		return context.Cause(ctx)
	}}
	fmt.Println(service.charge(context.Background(), "invoice:42"))
	// Output:
	// stopped: the lock is lost
}

// A process that crashes leaves its locks to their leases. Close does the same, and FastForward
// ends the leases without waiting.
func ExampleMasters_FastForward() {
	masters, end := quorumtest.ForExample(3) // in a test: masters := quorumtest.Start(t, 3)
	defer end()
	ctx := context.Background()
	crashed := masters.Locker()
	if _, err := crashed.Lock(ctx, "invoice:42"); err != nil { //quorumvet:ok the process crashes
		log.Fatal(err)
	}
	crashed.Close()

	service := biller{masters.Locker(), pay}
	fmt.Println(service.charge(ctx, "invoice:42"))
	masters.FastForward(quorum.DefaultLease)
	fmt.Println(service.charge(ctx, "invoice:42"))
	// Output:
	// left to the process that has it
	// charged
}

// A minority of the masters may be down, not more.
func ExampleMasters_Stop() {
	masters, end := quorumtest.ForExample(3) // in a test: masters := quorumtest.Start(t, 3)
	defer end()
	ctx := context.Background()
	service := biller{masters.Locker(), pay}
	masters.Stop(0)
	fmt.Println(service.charge(ctx, "invoice:42"))
	masters.Stop(1)
	fmt.Println(service.charge(ctx, "invoice:42"))
	// Output:
	// charged
	// try again later
}
