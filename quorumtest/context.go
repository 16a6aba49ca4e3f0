package quorumtest

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/internal/testlock"
)

// ContextWithToken returns a context in which [quorum.FromContext] finds a lock over the names with that token, as in
// the context that [quorum.Locker.Do] gives to its function, but without a master. It is for tests of code that reads
// the token from its context.
//
// No master knows the lock, and it excludes nobody. It is valid until Unlock: its Deadline is a year away. Extend
// returns nil and changes nothing. Unlock returns nil, and ends the context with [quorum.ErrReleased]. HandOver
// returns a ticket that no Locker can use, and ends the context with [quorum.ErrHandedOver]. A Locker that is given
// the context does not enter the lock: it makes a lock of its own, on its masters.
//
// When ctx ends, the context ends with its cause, and the lock stays valid, as any lock does. To test code that only
// watches its context for a loss, cancel ctx with an error that wraps [quorum.ErrLost]. To test with a lock that is
// lost, lock on masters and use [Masters.Lose].
func ContextWithToken(ctx context.Context, token uint64, names ...string) context.Context {
	return testlock.Context(ctx, token, slices.Clone(names))
}
