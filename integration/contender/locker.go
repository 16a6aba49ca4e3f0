package contender

import (
	"context"
	"fmt"
	"time"
)

// Locker is a lock as contenders use it.
type Locker interface {
	// Lock waits until the name is held or ctx is done. ctx spans the hold, too. It returns a Lock
	// or an error.
	Lock(ctx context.Context, name string) (Lock, error)
	Close() error
}

// Lock is a held lock. A *quorum.Lock is one.
type Lock interface {
	Owner() string // unique for each lock
	Token() uint64
	// Deadline is the end of the holder's belief; zero if that is unknown or never comes.
	Deadline() time.Time
	Context() context.Context // ends when the holder must stop
	Valid() bool
	Unlock(ctx context.Context) error
}

// Slot is a held slot of a semaphore.
type Slot interface {
	Lock
	Slots() []int // that nobody else holds
}

// SlotName is the name by which a slot's holds are recorded.
func SlotName(semaphore string, slot int) string { return fmt.Sprintf("%s slot %d", semaphore, slot) }

// Factory makes the Locker of a plan's kind.
type Factory func(Plan) (Locker, error)
