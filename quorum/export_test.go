package quorum

import (
	"context"
	"fmt"
)

// Semaphore is package semaphore's, which the tests of this package cannot import.
type Semaphore interface {
	Acquire(ctx context.Context, k ...int) (*Lock, error)
	TryAcquire(ctx context.Context, k ...int) (*Lock, error)
}

// NewSemaphore is semaphore.New.
var NewSemaphore func(l *Locker, name string, n int) Semaphore

// Inspected is what package operator says of a lock, which the tests of this package cannot import either.
type Inspected struct {
	Owner    string
	Identity Identity
	Owners   []string // by node
	Errs     []error  // by node
}

var (
	inspect func(ctx context.Context, l *Locker, name string) (Inspected, error)
	force   func(ctx context.Context, l *Locker, names ...string) error
)

// Operate gives the tests operator.Inspect and operator.ForceUnlock.
func Operate(inspects func(context.Context, *Locker, string) (Inspected, error), forces func(context.Context, *Locker, ...string) error) {
	inspect, force = inspects, forces
}

// Left says what a Locker that holds nothing has left in its process, or "".
func Left(l *Locker) string {
	if queues, scheduled, flows := queuesOf(l), l.engine.Held(), len(l.room.flows.calls); queues+scheduled+flows > 0 {
		return fmt.Sprintf("%d queues, %d locks that are renewed, %d names of flows that wait", queues, scheduled, flows)
	}
	select {
	case <-l.engine.Idle():
		return ""
	default:
		return "something under way"
	}
}
