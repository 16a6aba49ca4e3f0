package contender

import (
	"context"
	"time"
)

// Locker is a lock as contenders use it.
type Locker interface {
	// Lock waits until the name is held or ctx is done. ctx spans the hold, too. It returns a Lock
	// or an error.
	Lock(ctx context.Context, name string) (Lock, error)
	Close() error
}

// Lock is a held lock. A *quorum.Lock is one. That of a semaphore has Slots, too, which nobody else holds.
type Lock interface {
	Owner() string // unique for each lock
	Token() uint64
	// Deadline is the end of the holder's belief; zero if that is unknown or never comes.
	Deadline() time.Time
	Context() context.Context // ends when the holder must stop
	Valid() bool
	Unlock(ctx context.Context) error
}

// Factory makes the Locker of a plan's kind.
type Factory func(Plan) (Locker, error)
