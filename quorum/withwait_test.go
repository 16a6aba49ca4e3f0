package quorum

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
)

// gaveUp fails the test unless err says that the call gave up after the bound, and wraps the reason.
// The caller's context has not ended, so no error of a context may be there.
func gaveUp(t *testing.T, err, reason error, after time.Duration) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, ErrNotAcquired) || !errors.Is(err, reason) {
		t.Errorf("want ErrNotAcquired and %q: %v", reason, err)
		return
	}
	wantError(t, err, not{context.DeadlineExceeded}, not{context.Canceled}) // the caller's context goes on
	sentence := "gave up after " + after.String()
	testkit.Check(t, strings.Count(err.Error(), sentence) == 1, "want %q once: %v", sentence, err)
}

const boundedWait = 3 * time.Second

// Lock and Do give up at the bound, not before, and leave nothing behind.
func TestWaitGivesUp(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, l *Locker) error{
		"Lock": func(ctx context.Context, l *Locker) error { _, err := l.Lock(ctx, "a"); return err },
		"Do": func(ctx context.Context, l *Locker) error {
			return l.Do(ctx, func(context.Context, *Lock) error { return errors.New("the function has run") }, "a")
		},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			held := c.lock(c.process(), "a")
			plain := c.process()
			l := plain.With(WithWait(boundedWait))
			began, goroutines := time.Now(), countGoroutines()
			gaveUp(t, call(t.Context(), l), ErrHeld, boundedWait)
			wantTook(t, began, boundedWait, boundedWait)
			c.unlock(held)
			time.Sleep(time.Second) // until the connections for messages are closed
			c.wantNothingLeft(plain)
			n := countGoroutines()
			testkit.Check(t, n <= goroutines, "%d goroutines, %d before", n, goroutines)
		})
	}
}

// The bound ends the waiting alone: the lock outlives it, under the context that was given to Lock.
func TestWaitDoesNotBoundTheWork(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithWait(boundedWait))
		type key struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "given"))
		held := c.lock(c.process(), "a")
		time.AfterFunc(boundedWait/2, func() { c.unlock(held) })
		lock := c.got(l.Lock(ctx, "a"))
		inner := c.got(l.Lock(lock.Context(), "a"))
		time.Sleep(2 * boundedWait)
		for _, one := range []*Lock{lock, inner} {
			testkit.Check(t, one.Valid() && one.Context().Err() == nil && one.Context().Value(key{}) == "given",
				"depth %d: valid %v, its context: %v", one.Depth(), one.Valid(), context.Cause(one.Context()))
		}
		_, isWait := lock.scope.Context.(*waitContext)
		testkit.Check(t, !isWait, "the lock's context derives from the one that bounds the waiting")
		why := errors.New("why")
		cancel(why)
		testkit.Equal(t, context.Cause(inner.Context()), why, "the cause is")
		c.unlock(lock)
	})
}

// An attempt that is under way at the bound is undone, also on nodes that answer late.
func TestWaitCutsAnAttempt(t *testing.T) {
	const short = 300 * time.Millisecond // below a node's timeout
	inCluster(t, func(t *testing.T, c *cluster) {
		plain := c.process()
		l := plain.With(WithWait(short))
		answers := c.stall()
		gaveUp(t, errorOf(l.Lock(t.Context(), "a")), ErrUnavailable, short)
		answers()
		c.wantNothingLeft(plain)

		// Re-entry waits for the nodes only, and is bounded as well.
		held := c.lock(l, "a")
		answers = c.stall()
		began := time.Now()
		_, err := l.Lock(held.Context(), "a")
		if took := time.Since(began); took != short || !strings.Contains(err.Error(), "gave up after") {
			t.Errorf("re-entry after %v: %v", took, err)
		}
		answers()
		synctest.Wait()
		testkit.Check(t, held.Depth() == 1 && held.Valid(), "depth %d, valid %v", held.Depth(), held.Valid())
		c.unlock(held)
		c.wantNothingLeft(plain)
	})
}

// A call that gives up while it asks for the list of masters gives the reason, too: over pools
// without a name the list may not be known yet.
func TestWaitForTheList(t *testing.T) {
	const short = 300 * time.Millisecond // below a node's timeout
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithWait(short))
		l.core.Roster = roster.New(l.core.Nodes, l.core.Clock, roster.Options{Founds: true, Go: func(f func()) { go f() }, IsClosed: l.core.IsClosed}) // whose list is not known yet
		answers := c.stall()
		gaveUp(t, errorOf(l.Lock(t.Context(), "a")), ErrUnavailable, short)
		answers()
	})
}

// A call keeps its turn until it gives up, and gives it to the next one then.
func TestWaitKeepsItsTurn(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		plain := c.process()
		l := plain.With(WithWait(boundedWait))
		held := c.lock(plain, "a")
		results := make(chan lockResult, 3)
		startWaiter(t.Context(), l, 1, results, "a")
		startWaiter(t.Context(), plain, 2, results, "a")
		time.Sleep(boundedWait - time.Second)
		startWaiter(t.Context(), l, 3, results, "a")
		c.unlock(held)
		first := c.next(results, shortly)
		require(t, first.err == nil && first.waiter == 1, "waiter %d was first: %v", first.waiter, first.err)
		time.Sleep(boundedWait - time.Millisecond)
		synctest.Wait()
		require(t, len(results) == 0, "a waiter has given up too early")
		third := c.next(results, shortly)
		gaveUp(t, third.err, ErrHeld, boundedWait)
		c.unlock(first.lock)
		c.unlock(c.nextLock(results, shortly))
		c.wantNothingLeft(plain)
	})
}

// The end of the caller's context is reported as usual, and TryLock is not bounded.
func TestWaitAndTheCallersContext(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithWait(boundedWait))
		held := c.lock(c.process(), "a")
		ctx, cancel := context.WithTimeout(t.Context(), boundedWait/2)
		defer cancel()
		wantError(t, errorOf(l.Lock(ctx, "a")), context.DeadlineExceeded, ErrHeld, not{"gave up"}) // the context has ended
		c.unlock(held)

		time.Sleep(time.Second) // until the connections for messages are closed: a stalled master serves none
		time.AfterFunc(shortly, c.stall())
		c.unlock(c.got(l.With(WithWait(time.Nanosecond)).TryLock(t.Context(), "a")))
	})
}

// A wait of 0 is one attempt, and the greatest one is no bound.
func TestWaitBounds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithWait(boundedWait))
		held := c.lock(c.process(), "a")
		began := time.Now()
		err := l.With(WithWait(0)).Do(t.Context(), func(context.Context, *Lock) error { return errors.New("the function has run") }, "a")
		var failed *Error
		if !errors.As(err, &failed) || !errors.Is(err, ErrHeld) || strings.Contains(err.Error(), "gave up") || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.AfterFunc(10*boundedWait, func() { c.unlock(held) })
		lock, err := l.With(WithWait(math.MaxInt64)).Lock(t.Context(), "a")
		require(t, err == nil && time.Since(began) >= 10*boundedWait, "after %v: %v", time.Since(began), err)
		c.unlock(lock)
		for name, want := range map[string]error{"a": nil, "": ErrInvalid} {
			wantError(t, l.CheckNames(name), want, of{name})
		}
		l.Close()
		wantError(t, l.CheckNames("a"), ErrClosed)
	})
}
