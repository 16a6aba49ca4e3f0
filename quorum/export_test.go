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

// Left says what a Locker that holds nothing has left in its process, or "".
func Left(l *Locker) string {
	if queues, scheduled := ofList(l, "queues"), l.engine.Held(); queues+scheduled > 0 {
		return fmt.Sprintf("%d queues, %d locks that are renewed", queues, scheduled)
	}
	select {
	case <-l.engine.Idle():
		return ""
	default:
		return "something under way"
	}
}
