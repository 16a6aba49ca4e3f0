package quorumtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"testing"

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

// exampleT stands for the *testing.T of a test, which an example does not have.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Output() io.Writer                 { return io.Discard }
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { log.Printf(format, args...) }
func (t *exampleT) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// A service that opens its locker itself is given the masters' URLs and options.
func ExampleStart() {
	t := new(exampleT) // in a test, its *testing.T
	defer t.end()

	masters := quorumtest.Start(t, 3)
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
	t := new(exampleT) // in a test, its *testing.T
	defer t.end()
	ctx := context.Background()

	masters := quorumtest.Start(t, 3)
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
	t := new(exampleT) // in a test, its *testing.T
	defer t.end()

	masters := quorumtest.Start(t, 3)
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
	t := new(exampleT) // in a test, its *testing.T
	defer t.end()
	ctx := context.Background()

	masters := quorumtest.Start(t, 3)
	crashed := masters.Locker()
	if _, err := crashed.Lock(ctx, "invoice:42"); err != nil {
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
	t := new(exampleT) // in a test, its *testing.T
	defer t.end()
	ctx := context.Background()

	masters := quorumtest.Start(t, 3)
	service := biller{masters.Locker(), pay}
	masters.Stop(0)
	fmt.Println(service.charge(ctx, "invoice:42"))
	masters.Stop(1)
	fmt.Println(service.charge(ctx, "invoice:42"))
	// Output:
	// charged
	// try again later
}
