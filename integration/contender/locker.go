package contender

import (
	"context"
	"time"
)

// Locker is a lock as contenders use it.
type Locker interface {
	// Lock waits until the name is held or ctx is done. ctx spans the hold, too. It returns a Lock or an error.
	Lock(ctx context.Context, name string) (Lock, error)
	Close() error
}

// Lock is held. A *quorum.Lock is one.
type Lock interface {
	Owner() string // fresh for every lock
	Token() uint64
	Deadline() time.Time      // until when the holder may believe that it holds; zero when it is not known any more, or there is none
	Context() context.Context // ends when the holder must stop
	Valid() bool
	Unlock(ctx context.Context) error
}

// Factory makes the Locker of a plan's kind.
type Factory func(Plan) (Locker, error)
