package quorum

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// watchedContext is a context of the caller's that runs code in every method: on gets the method, and the key of a value.
type watchedContext struct {
	context.Context
	on func(method string, key any)
}

func (c watchedContext) Deadline() (time.Time, bool) {
	c.on("Deadline", nil)
	return c.Context.Deadline()
}
func (c watchedContext) Done() <-chan struct{} { c.on("Done", nil); return c.Context.Done() }
func (c watchedContext) Err() error            { c.on("Err", nil); return c.Context.Err() }
func (c watchedContext) Value(key any) any     { c.on("Value", key); return c.Context.Value(key) }

// watched is a context that calls do in these methods, or in all.
func watched(ctx context.Context, do func(), methods ...string) context.Context {
	return watchedContext{ctx, func(method string, _ any) {
		if len(methods) == 0 || slices.Contains(methods, method) {
			do()
		}
	}}
}

// statusLog is a log with a status page.
type statusLog struct {
	slog.Handler
	page *statusPage
}

func (statusLog) Enabled(context.Context, slog.Level) bool    { return true }
func (l statusLog) Handle(context.Context, slog.Record) error { l.page.show(); return nil }

// statusPage shows what the lockers of a process know of their locks: it calls this package, and so must be shown with no
// mutex locked.
type statusPage struct {
	t       *testing.T
	lockers []*Locker
	mu      sync.Mutex
	locks   []*Lock
	shown   int
	failed  bool
}

func (p *statusPage) add(l *Lock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks = append(p.locks, l)
}

// show fails the test if a mutex is locked. A hold that has not become a lock is on no page: the names of
// the functions tell of its mutex.
func (p *statusPage) show() {
	p.mu.Lock()
	locks, failed := p.locks, p.failed
	p.shown++
	p.mu.Unlock()
	if failed {
		return
	}
	stack := string(debug.Stack())
	if !strings.Contains(stack, "Locked(") && testkit.Returns(func() { p.draw(locks) }) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
	p.t.Errorf("a method of a context is called with a mutex locked:\n%s", stack)
}

func (p *statusPage) draw(locks []*Lock) {
	for _, l := range locks {
		l.Valid()
		l.Deadline()
		l.Err()
	}
	for _, l := range p.lockers {
		l.Stats()
		l.engine.Held()
		l.room.waitlist.Random(2)
		l.engine.Idle()
		l.engine.Roster.List()
		l.room.waitlist.Len()
		for _, n := range l.engine.Nodes {
			n.State()
		}
	}
}

// lateClock goes on before its timers do.
type lateClock struct {
	clock.Clock
	by atomic.Int64
}

func (c *lateClock) Now() clock.Instant { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// However a lock or a waiting call ends, with a mutex of this package locked no method of a caller's context is
// called, no context is ended, and nothing is logged.
func TestContextsAreCalledWithNoMutexLocked(t *testing.T) {
	late := &lateClock{Clock: fakeclock.Monotonic()}
	for what, s := range map[string]struct {
		options []Option
		held    func(c *cluster, l *Locker, lock *Lock, ctx context.Context) // by a lock at "a"
		instead func(c *cluster, l *Locker, ctx context.Context)             // of it
	}{
		"unlock":                      {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) { lock.Unlock(ctx) }},
		"unlock with its own context": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) { lock.Unlock(lock.Context()) }},
		"re-entry": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			inner := c.got(l.Lock(lock.Context(), "a"))
			inner.Unlock(inner.Context())
			l.Lock(lock.Context(), "a")
			lock.Unlock(ctx)
		}},
		"a re-entry that fails": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			c.delay(900 * time.Millisecond)
			bounded, cancel := context.WithTimeout(lock.Context(), time.Millisecond)
			defer cancel()
			_, err := l.Lock(bounded, "a")
			testkit.Check(c.t, err != nil, "it has entered")
			c.delay(0)
		}},
		"extend": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			lock.Extend(ctx, time.Second)
			lock.Extend(lock.Context(), time.Second)
		}},
		"lost by replies": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			l.Lock(lock.Context(), "a")
			flush(c.Masters[0], c.Masters[1])
			lock.Extend(ctx, time.Second)
			lock.Unlock(ctx)
		}},
		"max hold": {options: []Option{WithMaxHold(time.Second)}, held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			time.Sleep(2 * time.Second)
		}},
		"stopped": {options: []Option{WithStopBefore(900 * time.Millisecond), WithFixedLease(2 * time.Second)}, held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			l.Lock(lock.Context(), "a")
			time.Sleep(1900 * time.Millisecond)
			lock.Unlock(ctx)
		}},
		"fixed lease": {options: []Option{WithFixedLease(time.Second)}, held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			time.Sleep(2 * time.Second)
		}},
		"deadline found": {options: []Option{WithFixedLease(time.Second), withClock(late)}, held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			late.by.Store(int64(2 * time.Second))
			lock.Unlock(ctx)
		}},
		"min hold": {options: []Option{WithMinHold(time.Second)}, held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			lock.Unlock(ctx)
			time.Sleep(2 * time.Second)
		}},
		"close": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			l.Lock(lock.Context(), "a")
			l.Close()
			lock.Unlock(ctx)
		}},
		"hand over and take over": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			ticket := testkit.Got(lock.HandOver(ctx))(c.t)
			c.got(l.TakeOver(ctx, ticket)).Unlock(ctx)
			l.TakeOver(ctx, ticket)
		}},
		"a hook that panics": {instead: func(c *cluster, l *Locker, ctx context.Context) {
			recoverCallerPanic(func() {
				l.With(WithHooks(Hooks{Acquired: func(*Lock) { panic(callerPanic{}) }})).Lock(ctx, "a")
			})
		}},
		"readers": {instead: func(c *cluster, l *Locker, ctx context.Context) {
			lock := c.got(l.RWLock("a").Lock(ctx))
			lock.Downgrade(ctx)
			reader := c.got(l.RWLock("a").RLock(ctx))
			l.RWLock("a").TryLock(ctx)
			reader.Unlock(ctx)
			lock.Unlock(ctx)
		}},
		"semaphore": {instead: func(c *cluster, l *Locker, ctx context.Context) {
			lock := c.got(NewSemaphore(l, "a", 1).Acquire(ctx))
			NewSemaphore(l, "a", 1).TryAcquire(ctx)
			lock.Unlock(ctx)
		}},
		"waiting": {held: func(c *cluster, l *Locker, lock *Lock, ctx context.Context) {
			l.TryLock(ctx, "a")
			l.With(WithWait(time.Second)).Lock(ctx, "a")
			bounded, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			l.Lock(bounded, "a")
			behind := make(chan lockResult, 1)
			startWaiter(ctx, l, 0, behind, "a")
			time.Sleep(time.Second)
			lock.Unlock(ctx)
			c.nextLock(behind, time.Second).Unlock(ctx)
			l.Do(ctx, func(context.Context, *Lock) error { return nil }, "a")
		}},
		"masters that are down": {instead: func(c *cluster, l *Locker, ctx context.Context) {
			crash(c.Masters, fakeredis.Nothing)
			bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			l.TryLock(ctx, "a")
			l.Lock(bounded, "a")
			l.Ready(ctx)
		}},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			page := &statusPage{t: t}
			l := c.process(append(s.options, WithHooks(Hooks{Acquired: page.add}), WithLogger(slog.New(statusLog{slog.DiscardHandler, page})))...)
			page.lockers = []*Locker{l}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hostile := watched(ctx, page.show)
			if s.instead != nil {
				s.instead(c, l, hostile)
			} else {
				lock := c.got(l.Lock(hostile, "a"))
				s.held(c, l, lock, hostile)
			}
			synctest.Wait()
			testkit.Check(t, page.shown >= 5, "the context was hardly asked: the test shows nothing")
		})
	}
}

// Contexts of one lock block, in the caller's code, as it ends. Meanwhile locks that are due at the same
// instant end, are released and are renewed, and all masters answer.
func TestContextsThatBlockDelayNoOtherLock(t *testing.T) {
	for what, end := range map[string]struct {
		options []Option
		free    bool // the masters have nothing of it a second later
		after   time.Duration
		do      func(l *Locker, lock *Lock)
	}{
		"max hold": {options: []Option{WithMaxHold(time.Second)}, after: time.Second, do: func(*Locker, *Lock) {}},
		"stopped":  {options: []Option{WithMaxHold(3 * time.Second), WithStopBefore(time.Second)}, free: true, after: 2 * time.Second, do: func(*Locker, *Lock) {}},
		"lost by a reply": {free: true, do: func(l *Locker, lock *Lock) {
			force(context.Background(), l, "blocked")
			lock.Extend(context.Background(), time.Second)
		}},
		"unlocked": {do: func(l *Locker, lock *Lock) { lock.Unlock(context.Background()) }},
		"lingers": {options: []Option{WithMinHold(time.Second)}, free: true, do: func(l *Locker, lock *Lock) {
			lock.Unlock(context.Background())
		}},
		"closed": {do: func(l *Locker, lock *Lock) { l.Close() }},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			l, ended, unblock := c.process(WithLease(3*time.Second)), new(atomic.Bool), make(chan struct{})
			asked := make(chan struct{}, 8)
			defer close(unblock)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			blocks := watched(ctx, func() {
				if ended.Load() {
					asked <- struct{}{}
					<-unblock
				}
			}, "Done")
			blocked := c.got(l.With(end.options...).Lock(blocks, "blocked"))
			lost, kept := c.lock(l.With(WithMaxHold(time.Second)), "lost"), c.lock(l, "kept")
			lingers := c.lock(l.With(WithMinHold(time.Second)), "lingers")
			c.unlock(lingers)
			inner := c.got(l.With(end.options...).Lock(context.WithoutCancel(blocked.Context()), "blocked"))
			synctest.Wait()
			ended.Store(true)
			go end.do(l, blocked)
			time.Sleep(end.after)
			testkit.Require(t, testkit.Returns(func() { <-asked; blocked.Valid(); l.engine.Held() }),
				"the context was not asked, or a mutex is locked meanwhile")
			time.Sleep(1100 * time.Millisecond) // the third of the lease, and the holds
			synctest.Wait()
			testkit.Require(t, !blocked.Valid() && lost.Context().Err() != nil,
				"valid: %v, the context of a lock that was due at the same instant: %v", blocked.Valid(), lost.Context().Err())
			if what == "closed" {
				return
			}
			other := c.process()
			state, err := inspect(t.Context(), other, "blocked")
			testkit.Check(t, err == nil && (state.Owner == "") == end.free,
				"it was released before its contexts have ended: %+v, %v", state, err)
			testkit.Check(t, what != "lingers" && what != "stopped" || inner.Context().Err() != nil,
				"it was released before the context of an inner handle has ended")
			for _, n := range l.Stats().Nodes {
				testkit.Check(t, n.LastError == nil, "a master's replies are not read: %v", n.LastError)
			}
			c.unlock(c.lock(other, "lingers"))
			time.Sleep(5 * time.Second)
			testkit.Check(t, kept.Valid(), "a lock was not renewed")
			c.unlock(kept)
		})
	}
}

// The contexts of a lock may be ending when it is unlocked: the race detector looks on.
func TestUnlockWhileCloseEndsTheContexts(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		lock := c.lock(l, "a")
		closed := make(chan struct{})
		go func() {
			l.Close()
			close(closed)
		}()
		for lock.Err() == nil { // the end of the context would put the two in order
			runtime.Gosched()
		}
		lock.Unlock(t.Context())
		testkit.Equal(t, context.Cause(lock.Context()), ErrClosed, "the cause")
		<-closed
		testkit.Check(t, lock.Deadline().IsZero(), "after Close it has a deadline")
	})
}

// A held lock whose key the masters refuse from now on costs the locks that are renewed in one call with it nothing.
func TestARefusedKeyCostsOtherLocksNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		kept, refused := c.lock(l, "a"), c.lock(l, "b")
		for _, m := range c.Masters {
			m.Refuse(fakeredis.Refusals{Key: "b"})
		}
		for range 10 {
			time.Sleep(DefaultLease)
			testkit.Check(t, kept.Valid(), "it is lost: %v", kept.Err())
		}
		wantError(t, refused.Err(), ErrLost)
		c.unlock(kept)
	})
}
