package semaphore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
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

// eager is a clock whose timers fire twice whenever they are set again, a moment later.
type eager struct {
	clock.Clock
	returned *atomic.Int64 // calls of timers' functions
}

type eagerTimer struct {
	clock.Timer
	fire func()
}

func (c eager) AfterFunc(d time.Duration, f func()) clock.Timer {
	return eagerTimer{c.Clock.AfterFunc(d, f), func() { f(); c.returned.Add(1) }}
}

func (t eagerTimer) Reset(d time.Duration) bool {
	time.AfterFunc(1, t.fire)
	time.AfterFunc(1, t.fire)
	return t.Timer.Reset(d)
}

// The timer of a question about slots may fire before its first signal was read: its function returns nevertheless.
func TestATimerOfSlotsThatFiresAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Opened(quorum.New(world.New(t, 3).NewProcess().Nodes(node.WithoutQuarantine()), quorum.Majority))(t)
		s := New(l, "s", 3)
		var returned atomic.Int64
		e := s.engine()
		e.Clock = eager{e.Clock, &returned}
		_, _, answered := s.askNodes(t.Context(), 0)
		time.Sleep(time.Millisecond)
		testkit.Check(t, answered && returned.Load() == 2, "answered %v, %d signals", answered, returned.Load())
	})
}
