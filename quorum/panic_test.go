package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// outcry is what code of the caller's panics with in these tests.
type outcry struct{}

// bomb goes off once: in the goroutine that armed it, at the call that it was armed for.
type bomb struct {
	mu        sync.Mutex
	goroutine string
	left      int
	wentOff   bool
}

// arm has the bomb go off at the nth call from now on.
func (b *bomb) arm(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.goroutine, b.left, b.wentOff = thisGoroutine(), n, false
}

// disarm tells whether the bomb has gone off.
func (b *bomb) disarm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = 0
	return b.wentOff
}

func (b *bomb) tick() {
	b.mu.Lock()
	off := false
	if b.left > 0 && b.goroutine == thisGoroutine() {
		b.left--
		off = b.left == 0
		b.wentOff = off
	}
	b.mu.Unlock()
	if off {
		panic(outcry{})
	}
}

func thisGoroutine() string {
	var b [64]byte
	return strings.Fields(string(b[:runtime.Stack(b[:], false)]))[1]
}

// touchyContext is a caller's own, with a bomb in every method.
type touchyContext struct {
	context.Context
	bomb *bomb
}

func (c touchyContext) Deadline() (time.Time, bool) { c.bomb.tick(); return c.Context.Deadline() }
func (c touchyContext) Done() <-chan struct{}       { c.bomb.tick(); return c.Context.Done() }
func (c touchyContext) Err() error                  { c.bomb.tick(); return c.Context.Err() }
func (c touchyContext) Value(key any) any           { c.bomb.tick(); return c.Context.Value(key) }

// touchyLog panics with every line.
type touchyLog struct{ slog.Handler }

func (touchyLog) Handle(context.Context, slog.Record) error { panic(outcry{}) }

// survive runs what may panic with an outcry.
func survive(what func()) {
	defer func() {
		if x := recover(); x != nil && x != any(outcry{}) {
			panic(x)
		}
	}()
	what()
}

// wantNothingLeft fails the test unless the locker is as one that has never been used, and the name "a" free.
func (c *cluster) wantNothingLeft(l *Locker) {
	c.t.Helper()
	synctest.Wait()
	for what, mu := range map[string]*sync.Mutex{"waitlist": &l.waitlist.mu, "schedule": &l.core.schedule.mu, "rng": &l.core.rngMu} {
		if !mu.TryLock() {
			c.t.Fatalf("the mutex of the %s stays locked", what)
		}
		mu.Unlock()
	}
	c.empty(l)
	if n := l.core.background.count; n != 0 {
		c.t.Errorf("%d things are said to run in the background", n)
	}
	if n := len(l.core.schedule.queue); n != 0 {
		c.t.Errorf("%d locks are renewed", n)
	}
	if n := c.listening("a"); n != 0 {
		c.t.Errorf("%d subscriptions are left", n)
	}
	c.wantNoOwners(l)
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	lock, err := l.Lock(ctx, "a")
	if err != nil {
		c.t.Fatalf("nobody gets the lock any more: %v", err)
	}
	c.unlock(lock)
	synctest.Wait()
}

// A hook that panics, or ends its goroutine, leaves no lock behind that nobody has: it would be renewed for ever.
func TestHookAcquiredThatPanics(t *testing.T) {
	for what, cry := range map[string]func(){"panic": func() { panic(outcry{}) }, "Goexit": runtime.Goexit} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				calm := c.process(WithRetry(time.Minute, time.Minute))
				var seen *Lock
				l := calm.With(WithHooks(Hooks{Acquired: func(lock *Lock) { seen = lock; cry() }}))
				ctx := t.Context()
				for what, call := range map[string]func(){
					"Lock":    func() { l.Lock(ctx, "a") },
					"TryLock": func() { l.TryLock(ctx, "a") },
					"Do": func() {
						l.Do(ctx, func(context.Context) error { t.Error("fn was called"); return nil }, "a")
					},
					"Lock that waits": func() {
						held := c.lock(calm, "a")
						time.AfterFunc(time.Second, func() { held.Unlock(context.Background()) })
						l.Lock(ctx, "a")
					},
				} {
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						survive(call)
					}()
					<-ended
					if seen.Valid() || seen.Context().Err() == nil || context.Cause(seen.Context()) != ErrReleased {
						t.Errorf("%s: the lock is valid: %v, its context %v", what, seen.Valid(), context.Cause(seen.Context()))
					}
					c.wantNothingLeft(calm)
				}
			})
		})
	}
}

// One that unlocks before it panics has done it.
func TestHookAcquiredThatUnlocksAndPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		calm := c.process()
		l := calm.With(WithHooks(Hooks{Acquired: func(lock *Lock) { c.unlock(lock); panic(outcry{}) }}))
		survive(func() { l.Lock(t.Context(), "a") })
		c.wantNothingLeft(calm)
	})
}

func TestHookReleasedThatPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		calm := c.process()
		l := calm.With(WithHooks(Hooks{Released: func(*Lock) { panic(outcry{}) }}))
		survive(func() { c.lock(l, "a").Unlock(t.Context()) })
		c.wantNothingLeft(calm)
		survive(func() { l.Do(t.Context(), func(context.Context) error { panic(outcry{}) }, "a") })
		c.wantNothingLeft(calm)
	})
}

// A hook Lost that ends its goroutine keeps it from nobody else, and Close does not wait for it.
func TestHookLostThatEndsItsGoroutine(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var told atomic.Int64
		l := c.process(WithFixedLease(time.Second), WithHooks(Hooks{Lost: func(*Lock, error) { told.Add(1); runtime.Goexit() }}))
		for i := range 3 {
			c.lock(l, fmt.Sprint("a", i))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := told.Load(); n != 3 {
			t.Errorf("the hook was told of %d of 3 locks that were lost", n)
		}
		c.wantNothingLeft(l)
	})
}

// The log that panics is told that Lock waits, before it does.
func TestLogThatPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		calm := c.process()
		l := calm.With(WithLogger(slog.New(touchyLog{slog.Default().Handler()})))
		for _, m := range c.masters {
			m.Crash(fakeredis.Nothing)
		}
		survive(func() { l.Lock(t.Context(), "a"); t.Error("it has the lock") })
		for _, m := range c.masters {
			m.Start()
		}
		time.Sleep(5 * time.Second) // until the nodes are found to be back
		c.wantNothingLeft(calm)
	})
}

// Whatever call of a caller's context panics, on whatever way through the library, nothing is left: no lock that nobody has, no place in
// a queue, no mutex.
func TestContextThatPanics(t *testing.T) {
	// sweep plays a scene with the bomb going off at the first call, at the second, and so on, until it does not go off any more.
	sweep := func(t *testing.T, c *cluster, l *Locker, b *bomb, least int, scene func(b *bomb)) {
		for n := 1; ; n++ {
			b.disarm()
			survive(func() {
				b.arm(n)
				scene(b)
			})
			off := b.disarm()
			c.wantNothingLeft(l)
			if t.Failed() {
				t.Fatalf("when call %d panics", n)
			}
			if !off {
				if n < least {
					t.Fatal("the bomb was hardly called: the test shows nothing")
				}
				return
			}
		}
	}
	scenes := map[string]func(c *cluster, l *Locker, ctx context.Context, b *bomb){
		"Lock": func(c *cluster, l *Locker, ctx context.Context, b *bomb) {
			lock, err := l.Lock(ctx, "a")
			if b.disarm(); err != nil {
				c.t.Fatal(err)
			}
			c.unlock(lock)
		},
		"Lock and Unlock": func(c *cluster, l *Locker, ctx context.Context, b *bomb) {
			lock, err := l.Lock(ctx, "a")
			if err != nil {
				c.t.Fatal(err)
			}
			// Whoever has the lock unlocks it, however loud.
			defer func() {
				b.disarm()
				lock.Unlock(context.Background())
			}()
			lock.Valid()
			lock.Extend(ctx, time.Second)
			inner, err := l.Lock(touchyContext{lock.Context(), b}, "a")
			if err != nil {
				c.t.Fatal(err)
			}
			lock.Deadline()
			inner.Unlock(touchyContext{inner.Context(), b})
			if lock.Level() != 1 {
				c.t.Errorf("level %d", lock.Level())
			}
			lock.Unlock(ctx)
		},
		"TryLock in vain": func(c *cluster, l *Locker, ctx context.Context, b *bomb) {
			held := c.lockElsewhere()
			defer c.unlock(held)
			l.TryLock(ctx, "a")
		},
		"Lock that waits": func(c *cluster, l *Locker, ctx context.Context, b *bomb) {
			held := c.lockElsewhere()
			defer held.Unlock(context.Background())
			later := time.AfterFunc(3*time.Second, func() { held.Unlock(context.Background()) })
			defer later.Stop()
			lock, err := l.Lock(ctx, "a")
			if b.disarm(); err != nil {
				c.t.Fatal(err)
			}
			c.unlock(lock)
		},
		"Lock that gives up": func(c *cluster, l *Locker, ctx context.Context, b *bomb) {
			held := c.lockElsewhere()
			defer c.unlock(held)
			bounded, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			l.Lock(touchyContext{bounded, b}, "a")
		},
		// Another waits behind the one that panics, and must get its turn.
		"Lock before another": func(c *cluster, l *Locker, ctx context.Context, b *bomb) {
			held := c.lockElsewhere()
			defer held.Unlock(context.Background())
			behind := make(chan turned, 1)
			soon := time.AfterFunc(time.Second, func() {
				queueUp(context.Background(), l, 0, behind, "a")
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
			lock, err := l.Lock(ctx, "a")
			if b.disarm(); err != nil {
				c.t.Fatal(err)
			}
			c.unlock(lock)
		},
	}
	for what, scene := range scenes {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				b := &bomb{}
				l := c.process()
				c.elsewhere = c.process()
				sweep(t, c, l, b, 5, func(b *bomb) { scene(c, l, touchyContext{t.Context(), b}, b) })
			})
		})
	}
}

func (c *cluster) lockElsewhere() *Lock {
	c.t.Helper()
	return c.lock(c.elsewhere, "a")
}
