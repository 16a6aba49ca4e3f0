package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// delay makes every master answer after d, from now on.
func (c *cluster) delay(d time.Duration) { c.on(func(string) { time.Sleep(d) }) }

type valueKey struct{}

// A program may shadow ctx with the lock's context, and call Unlock with it. Unlock ends that context, and still
// waits.
func TestUnlockWaitsWithTheLocksOwnContext(t *testing.T) {
	const slow = 50 * time.Millisecond
	derived := map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"a value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, valueKey{}, 1), func() {}
		},
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		"time": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
	}
	for what, derive := range derived {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process()
			outer := c.lock(l, "a")
			inner := c.got(l.Lock(outer.Context(), "a"))
			other := c.got(l.Lock(inner.Context(), "b")) // of the same flow
			synctest.Wait()
			c.delay(slow)
			for _, step := range []struct{ of, by *Lock }{{other, other}, {inner, inner}, {outer, other}} {
				ctx, cancel := derive(step.by.Context())
				defer cancel()
				began := time.Now()
				err := step.of.Unlock(ctx)
				testkit.Check(t, err == nil, "%v: %v", step.of.Names(), err)
				wantTook(t, began, slow, 4*slow)
				testkit.Check(t, step.of.Context().Err() != nil && context.Cause(step.of.Context()) == ErrReleased,
					"the lock's context: %v", context.Cause(step.of.Context()))
			}
			c.delay(0)
			synctest.Wait()
			c.wantNoOwners(l)
		})
	}
}

// Any other end of a context derived from the lock's ends the waiting: its deadline, the end of the context given to
// Lock, or an earlier cancellation.
func TestUnlockWithTheLocksOwnContextIsBounded(t *testing.T) {
	const slow = 900 * time.Millisecond // less than the node's timeout
	reason := errors.New("the reason")
	for what, end := range map[string]struct {
		ctx   func(lock *Lock, cancel context.CancelCauseFunc) context.Context // cancel ends what is given to Lock
		after time.Duration
		want  error
	}{
		"its deadline": {func(lock *Lock, _ context.CancelCauseFunc) context.Context {
			ctx, cancel := context.WithTimeout(lock.Context(), 100*time.Millisecond)
			context.AfterFunc(ctx, cancel)
			return ctx
		}, 100 * time.Millisecond, context.DeadlineExceeded},
		"the parent": {func(lock *Lock, cancel context.CancelCauseFunc) context.Context {
			time.AfterFunc(200*time.Millisecond, func() { cancel(reason) })
			return lock.Context()
		}, 200 * time.Millisecond, reason},
		"the parent, before": {func(lock *Lock, cancel context.CancelCauseFunc) context.Context {
			cancel(reason)
			return lock.Context()
		}, 0, reason},
		"cancelled before": {func(lock *Lock, _ context.CancelCauseFunc) context.Context {
			ctx, cancel := context.WithCancelCause(lock.Context())
			cancel(reason)
			return ctx
		}, 0, reason},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l := c.process()
			parent, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			held := c.got(l.Lock(parent, "a"))
			synctest.Wait()
			c.delay(slow)
			ctx := end.ctx(held, cancel)
			began := time.Now()
			wantError(t, held.Unlock(ctx), end.want, not{ErrReleased})
			wantTook(t, began, end.after, end.after)
			c.delay(0)
			time.Sleep(2 * slow)
			synctest.Wait()
			c.wantNoOwners(l)
		})
	}
}

// The context of a call of Lock ends after an attempt was undone, and before the next one: the error
// has the context's.
func TestAContextThatEndsAfterAnAttemptIsInTheError(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		l := c.process(WithHooks(Hooks{Attempt: func(context.Context, AttemptEvent) { cancel() }}))
		c.rivalHas(l, 0, 1, 2)
		wantError(t, errorOf(l.Lock(ctx, "a")), context.Canceled, ErrHeld)
	})
}

// oddError is an error that cannot be compared: to try panics.
type oddError struct{ text []string }

func (oddError) Error() string { return "odd" }

// deepError's type can be compared, and its value cannot.
type deepError struct{ what any }

func (deepError) Error() string { return "odd" }

// oddContext ends with an error of its own.
type oddContext struct {
	context.Context
	err error
}

func (c oddContext) Err() error {
	if c.Context.Err() != nil {
		return c.err
	}
	return nil
}

// A context's error, and its cause, may be of a type that cannot be compared. The calls that it ends say what they always do.
func TestContextsErrorsAreNotCompared(t *testing.T) {
	calls := map[string]func(ctx context.Context, l *Locker, lock *Lock) error{
		"Lock":    func(ctx context.Context, l *Locker, _ *Lock) error { return errorOf(l.Lock(ctx, "a")) },
		"TryLock": func(ctx context.Context, l *Locker, _ *Lock) error { return errorOf(l.TryLock(ctx, "b")) },
		"RLock":   func(ctx context.Context, l *Locker, _ *Lock) error { return errorOf(l.RWLock("a").RLock(ctx)) },
		"Acquire": func(ctx context.Context, l *Locker, _ *Lock) error {
			return errorOf(NewSemaphore(l, "s", 1).Acquire(ctx))
		},
		"TryAcquire": func(ctx context.Context, l *Locker, _ *Lock) error {
			return errorOf(NewSemaphore(l, "s", 1).TryAcquire(ctx))
		},
		"Do": func(ctx context.Context, l *Locker, _ *Lock) error {
			return l.Do(ctx, func(context.Context, *Lock) error { return nil }, "b")
		},
		"a re-entry": func(ctx context.Context, l *Locker, lock *Lock) error {
			return errorOf(lock.enter(ctx, ctx, l.set, []string{"a"}))
		},
		"Extend":      func(ctx context.Context, _ *Locker, lock *Lock) error { return lock.Extend(ctx, time.Second) },
		"Unlock":      func(ctx context.Context, _ *Locker, lock *Lock) error { return lock.Unlock(ctx) },
		"Downgrade":   func(ctx context.Context, _ *Locker, lock *Lock) error { return lock.Downgrade(ctx) },
		"HandOver":    func(ctx context.Context, _ *Locker, lock *Lock) error { return errorOf(lock.HandOver(ctx)) },
		"Ready":       func(ctx context.Context, l *Locker, _ *Lock) error { return l.Ready(ctx) },
		"Inspect":     func(ctx context.Context, l *Locker, _ *Lock) error { return errorOf(inspect(ctx, l, "a")) },
		"ForceUnlock": func(ctx context.Context, l *Locker, _ *Lock) error { return force(ctx, l, "a") },
	}
	for what, call := range calls {
		for _, odd := range []error{oddError{[]string{"x"}}, deepError{[]string{"x"}}} {
			for _, after := range []time.Duration{0, time.Millisecond} {
				runInCluster(t, fmt.Sprintf("%s/%T/%v", what, odd, after), func(t *testing.T, c *cluster) {
					l := c.process()
					lock := c.lock(l, "a")
					defer lock.Unlock(t.Context())
					defer c.delay(0)
					defer func() {
						if p := recover(); p != nil {
							t.Error("it panicked:", p)
						}
					}()
					c.delay(100 * time.Millisecond)
					ctx, cancel := context.WithCancelCause(t.Context())
					if after == 0 {
						cancel(odd)
					}
					time.AfterFunc(after, func() { cancel(odd) })
					err := call(oddContext{ctx, odd}, l, lock)
					testkit.Check(t, err != nil && strings.Contains(err.Error(), "odd"), "%v", err)
				})
			}
		}
	}
}
