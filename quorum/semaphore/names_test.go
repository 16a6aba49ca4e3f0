package semaphore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Who changes the names of an error, or those given to a hook, changes no semaphore: its slots would be other locks.
func TestNamesThatCallersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := quorum.Hooks{LockStart: func(ctx context.Context, names []string) context.Context {
			names[0] = "changed"
			return ctx
		}}
		l, err := quorum.New(world.New(t, 3).NewProcess().Nodes(node.WithoutQuarantine()), quorum.Majority, quorum.WithHooks(hooks))
		testkit.Must(t, err)
		defer l.Close()
		s := New(l, "s", 1)
		held := testkit.Got(s.Acquire(t.Context()))(t)
		change := func(err error) {
			t.Helper()
			var failed *quorum.Error
			testkit.Require(t, errors.As(err, &failed) && failed.Names[0] == "s", "%v, want an error of s", err)
			failed.Names[0] = "changed"
		}
		for range 2 { // the second time by the names that the first has changed
			_, err = s.TryAcquire(t.Context())
			testkit.Check(t, errors.Is(err, quorum.ErrHeld), "%v, want ErrHeld", err)
			change(err)
			ended, cancel := context.WithTimeout(t.Context(), 1e9)
			_, err = s.Acquire(ended)
			cancel()
			change(err)
		}
		testkit.Check(t, s.Name() == "s" && held.Names()[0] == "s", "%v, %v", s, held)
		testkit.Must(t, held.Unlock(t.Context()))

		lock := testkit.Got(l.Lock(t.Context(), "n"))(t)
		inner := testkit.Got(l.TryLock(lock.Context(), "n"))(t)
		testkit.Must(t, inner.Unlock(t.Context()))
		testkit.Must(t, lock.Unlock(t.Context()))
	})
}
