package quorum

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// callerPanic is the value with which the caller's code panics in these tests.
type callerPanic struct{}

// trigger panics once: in the goroutine that armed it, at the call that it was armed for.
type trigger struct {
	mu        sync.Mutex
	goroutine string
	left      int
	fired     bool
}

// arm makes the nth call of tick from now on panic.
func (b *trigger) arm(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.goroutine, b.left, b.fired = thisGoroutine(), n, false
}

// disarm reports whether the trigger has fired, and keeps it from doing so.
func (b *trigger) disarm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = 0
	return b.fired
}

func (b *trigger) tick() {
	b.mu.Lock()
	off := false
	if b.left > 0 && b.goroutine == thisGoroutine() {
		b.left--
		off = b.left == 0
		b.fired = off
	}
	b.mu.Unlock()
	if off {
		panic(callerPanic{})
	}
}

func thisGoroutine() string {
	var b [64]byte
	return strings.Fields(string(b[:runtime.Stack(b[:], false)]))[1]
}

// panickingLog panics at every line.
type panickingLog struct{ slog.Handler }

func (panickingLog) Handle(context.Context, slog.Record) error { panic(callerPanic{}) }

// recoverCallerPanic runs a function, and recovers from a callerPanic.
func recoverCallerPanic(what func()) {
	defer func() {
		if x := recover(); x != nil && x != any(callerPanic{}) {
			panic(x)
		}
	}()
	what()
}

// endsGoroutine runs a function that may end its goroutine, or panic with a callerPanic.
func endsGoroutine(what func()) {
	var all sync.WaitGroup
	all.Go(func() { recoverCallerPanic(what) })
	all.Wait()
}

// wantNothingLeft fails the test unless the Locker is like a new one, and the name "a" is free.
func (c *cluster) wantNothingLeft(l *Locker) {
	c.t.Helper()
	synctest.Wait()
	testkit.Require(c.t, testkit.Returns(func() { l.engine.Held(); l.room.waitlist.Len(); l.room.waitlist.Random(2) }),
		"the mutex of the schedule, of the queues or of the source of randomness stays locked")
	testkit.Equal(c.t, Left(l), "", "what is left")
	testkit.Equal(c.t, c.subscriptions("a"), 0, "subscriptions that are left")
	c.wantNoOwners(l)
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	lock, err := l.Lock(ctx, "a")
	testkit.Require(c.t, err == nil, "no call acquires the lock: %v", err)
	c.unlock(lock)
	synctest.Wait()
}

// A hook may unlock before it panics. A min hold does not keep the lock then: it was not returned to anybody.
func TestHookAcquiredThatUnlocksAndPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		plain := c.process()
		hook := WithHooks(Hooks{Acquired: func(lock *Lock) { c.unlock(lock); panic(callerPanic{}) }})
		for _, l := range []*Locker{plain.With(hook), plain.With(hook, WithMinHold(time.Hour))} {
			recoverCallerPanic(func() { l.Lock(t.Context(), "a") })
			c.wantNothingLeft(plain)
		}
	})
}

func TestHookReleasedThatPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		plain := c.process()
		l := plain.With(WithHooks(Hooks{Released: func(*Lock) { panic(callerPanic{}) }}))
		recoverCallerPanic(func() { c.lock(l, "a").Unlock(t.Context()) })
		c.wantNothingLeft(plain)
		recoverCallerPanic(func() { l.Do(t.Context(), func(context.Context, *Lock) error { panic(callerPanic{}) }, "a") })
		c.wantNothingLeft(plain)

		lock, began := c.lock(l, "a"), time.Now()
		recoverCallerPanic(func() { lock.HandOver(t.Context()); t.Error("HandOver has returned") })
		synctest.Wait()
		testkit.Equal(t, Left(l), "", "what is left of a lock that was handed over")
		wantError(t, lock.Err(), ErrHandedOver)
		wantError(t, lock.Unlock(t.Context()), ErrNotHeld, ErrHandedOver)
		c.unlock(c.lock(plain, "a")) // nobody has the ticket
		wantTook(t, began, defaults().terms.Lease, defaults().terms.Lease+shortly)
	})
}

// A Lost hook that ends its goroutine is still called for the other locks, and Close does not wait
// for it.
func TestHookLostThatEndsItsGoroutine(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var calls atomic.Int64
		lost := func(*Lock, error) { calls.Add(1); runtime.Goexit() }
		l := c.process(WithFixedLease(time.Second), WithHooks(Hooks{Lost: lost}))
		for i := range 3 {
			c.lock(l, fmt.Sprint("a", i))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		testkit.Equal(t, calls.Load(), 3, "calls of the hook for 3 lost locks")
		c.wantNothingLeft(l)
	})
}

// The log panics at the line that Lock waits, before Lock does.
func TestLogThatPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		plain := c.process()
		l := plain.With(WithLogger(slog.New(panickingLog{slog.NewTextHandler(io.Discard, nil)})))
		crash(c.Masters, fakeredis.Nothing)
		recoverCallerPanic(func() { l.Lock(t.Context(), "a"); t.Error("Lock has returned") })
		startAll(c, 5*time.Second)
		c.wantNothingLeft(plain)
	})
}

// A panic in any call of a method of the caller's context leaves nothing behind: no lock without a
// handle, no waiter in a queue, no mutex that stays locked.
func TestContextThatPanics(t *testing.T) {
	locks := func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
		lock, err := l.Lock(ctx, "a")
		b.disarm()
		c.unlock(c.got(lock, err))
	}
	again := func(c *cluster, l, by *Locker, b *trigger) {
		outer := c.lock(l, "a")
		defer func() {
			b.disarm()
			testkit.Equal(c.t, outer.Depth(), 1, "depth")
			c.unlock(outer)
		}()
		inner, err := by.Lock(watched(outer.Context(), b.tick), "a")
		b.disarm()
		c.unlock(c.got(inner, err))
	}
	for what, scenario := range map[string]func(c *cluster, l *Locker, ctx context.Context, b *trigger){
		"Lock":       locks,
		"Lock again": func(c *cluster, l *Locker, _ context.Context, b *trigger) { again(c, l, l, b) },
		"Lock and Unlock": func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
			lock := c.got(l.Lock(ctx, "a"))
			// The caller unlocks the lock, also after its panic.
			defer func() {
				b.disarm()
				lock.Unlock(context.Background())
			}()
			lock.Valid()
			lock.Extend(ctx, time.Second)
			inner := c.got(l.Lock(watched(lock.Context(), b.tick), "a"))
			lock.Deadline()
			inner.Unlock(watched(inner.Context(), b.tick))
			testkit.Equal(c.t, lock.Depth(), 1, "depth")
			lock.Unlock(ctx)
		},
		"Lock again, that waits for so long": func(c *cluster, l *Locker, _ context.Context, b *trigger) {
			again(c, l, l.With(WithWait(time.Minute)), b)
		},
		"TryLock of a held lock": func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
			held := c.lockByOther()
			defer c.unlock(held)
			l.TryLock(ctx, "a")
		},
		"Lock that waits": func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
			held := c.lockByOther()
			defer held.Unlock(context.Background())
			later := time.AfterFunc(3*time.Second, func() { held.Unlock(context.Background()) })
			defer later.Stop()
			locks(c, l, ctx, b)
		},
		"Lock that waits for so long": func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
			locks(c, l.With(WithWait(time.Minute)), ctx, b)
		},
		"Lock that gives up": func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
			held := c.lockByOther()
			defer c.unlock(held)
			bounded, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			l.Lock(watched(bounded, b.tick), "a")
		},
		// Another waiter is behind the one that panics, and must acquire the lock in the end.
		"Lock before another": func(c *cluster, l *Locker, ctx context.Context, b *trigger) {
			held := c.lockByOther()
			defer held.Unlock(context.Background())
			behind := make(chan lockResult, 1)
			soon := time.AfterFunc(time.Second, func() {
				startWaiter(context.Background(), l, 0, behind, "a")
			})
			later := time.AfterFunc(3*time.Second, func() { held.Unlock(context.Background()) })
			defer func() {
				b.disarm()
				if !soon.Stop() {
					got := c.next(behind, 5*time.Second)
					c.unlock(got.lock)
				}
				later.Stop()
			}()
			locks(c, l, ctx, b)
		},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			b, l := &trigger{}, c.process()
			c.other = c.process()
			for n, off := 1, true; off; n++ { // a panic at the first call of tick, then at the second, until there are no more calls
				b.disarm()
				recoverCallerPanic(func() {
					b.arm(n)
					scenario(c, l, watched(t.Context(), b.tick), b)
				})
				off = b.disarm()
				c.wantNothingLeft(l)
				testkit.Require(t, !t.Failed(), "with a panic at call %d", n)
				testkit.Require(t, off || n >= 5, "tick was hardly called: the test shows nothing")
			}
		})
	}
}

func (c *cluster) lockByOther() *Lock {
	c.t.Helper()
	return c.lock(c.other, "a")
}

// panicsOnce is a source of randomness that panics at its first use.
type panicsOnce struct{ used bool }

func (s *panicsOnce) Uint64() uint64 {
	if !s.used {
		s.used = true
		panic(callerPanic{})
	}
	return 7
}

func TestSourceThatPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		source := &panicsOnce{}
		l, held := c.process(withRand(source)), c.lock(c.process(), "a")
		recoverCallerPanic(func() { l.Lock(t.Context(), "a"); t.Error("Lock has returned") })
		c.unlock(held)
		c.wantNothingLeft(l)
	})
}
