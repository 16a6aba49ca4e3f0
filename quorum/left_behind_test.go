package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// wantNoOwners fails the test if a master has an owner of the name "a".
func (c *cluster) wantNoOwners(l *Locker) {
	c.t.Helper()
	for i, owner := range c.owners(l) {
		testkit.Check(c.t, owner == "", "master %d still has %s", i, owner)
	}
}

// owners returns the owner of the name "a" on each master, empty for none.
func (c *cluster) owners(l *Locker) []string {
	c.t.Helper()
	state := testkit.Got(inspect(context.Background(), l, "a"))(c.t)
	return state.Owners
}

// After the release nothing that could bring a key back is sent, not even through another handle of the lock.
func TestNothingIsSentAfterTheRelease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(l, "a")
		inner, entering := c.got(l.Lock(held.Context(), "a")), c.got(l.Lock(held.Context(), "a"))
		synctest.Wait()
		c.unlock(held)
		synctest.Wait()
		calls := c.calls()
		wantError(t, errorOf(inner.enter(t.Context(), t.Context(), l.set, []string{"a"})), ErrNotAcquired) // entered again
		wantError(t, inner.Extend(t.Context(), time.Second), ErrNotHeld)                                   // extended
		wantError(t, inner.Unlock(t.Context()), ErrNotHeld)                                                // unlocked
		entering.handle.BackOut()
		time.Sleep(DefaultLease)
		synctest.Wait()
		testkit.Equal(t, c.calls()-calls, 0, "calls after the release")
		c.wantNoOwners(l)
	})
}

// It is sent again after an inner handle was unlocked: the lock is still held.
func TestInnerUnlockAbandonsNoRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, answers := c.process(), make(chan struct{})
		var asked atomic.Int32
		c.before(2, func() { <-answers })
		held := c.lock(l, "a")
		c.unlock(c.got(l.Lock(held.Context(), "a")))
		c.HangUp(2)
		c.before(2, func() { asked.Add(1) })
		close(answers)
		time.Sleep(2 * shortly)
		testkit.Check(t, asked.Load() >= 3, "asked %d times: to grant, to raise the depth and to lower it are 3", asked.Load())
		c.unlock(held)
	})
}

// A request for a grant that dies with its connection is not sent again once the lock is released: it could follow the release.
func TestUnlockAbandonsRequests(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, answers := c.process(), make(chan struct{})
		c.before(2, func() { <-answers })
		held := c.lock(l, "a")
		synctest.Wait() // master 2 has the request
		c.unlock(held)
		c.HangUp(2)
		c.notAsked(2)
		close(answers)
		time.Sleep(time.Second)
	})
}

// A call that is cancelled ends at once, and leaves nothing, at any moment: at n = 0 nothing has happened, else n
// scripts have run. From then on no request arrives and no reply leaves, until the call has returned.
func TestACallThatIsCancelledAnywhereLeavesNothing(t *testing.T) {
	pair := func(l *Locker) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			lock, err := l.Lock(ctx, "a")
			if err == nil {
				err = lock.Unlock(ctx)
			}
			return err
		}
	}
	nothing := func() {}
	for what, scene := range map[string]func(c *cluster, l *Locker) (call func(ctx context.Context) error, after func()){
		"a free name": func(_ *cluster, l *Locker) (func(context.Context) error, func()) { return pair(l), nothing },
		"a token is written back": func(c *cluster, l *Locker) (func(context.Context) error, func()) {
			c.raiseCounters(l, 0)
			return pair(l), nothing
		},
		"a grant is taken back": func(c *cluster, l *Locker) (func(context.Context) error, func()) {
			rival := c.process(WithFixedLease(time.Second))
			c.rivalHas(rival, 0, 1)
			return func(ctx context.Context) error { _, err := l.TryLock(ctx, "a"); return err }, func() { time.Sleep(2 * time.Second) }
		},
		"another holds": func(c *cluster, l *Locker) (func(context.Context) error, func()) {
			held := c.lock(c.process(), "a")
			return func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return pair(l)(ctx)
			}, func() { c.unlock(held) }
		},
		"it is entered again": func(c *cluster, l *Locker) (func(context.Context) error, func()) {
			held := c.lockKnown(l, "a")
			return func(ctx context.Context) error {
					flow, cancel := context.WithCancel(held.Context())
					defer context.AfterFunc(ctx, cancel)()
					return pair(l)(flow)
				}, func() {
					synctest.Wait()
					testkit.Check(c.t, held.Depth() == 1 && held.Valid(), "depth %d, %v", held.Depth(), held.Err())
					c.unlock(held)
				}
		},
	} {
		t.Run(what, func(t *testing.T) {
			n := 0
			for cancelled := true; cancelled && !t.Failed(); n++ {
				inCluster(t, func(t *testing.T, c *cluster) {
					l := c.process()
					call, after := scene(c, l)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					healed, left, began := make(chan struct{}), atomic.Int64{}, atomic.Pointer[time.Time]{}
					left.Store(int64(n))
					end := func() {
						c.jammed.Store(&healed)
						now := time.Now()
						began.Store(&now)
						cancel()
					}
					each := func(string) {
						if left.Add(-1) == 0 {
							end()
						}
						if left.Load() <= 0 {
							<-healed
						}
					}
					c.on(each)
					if n == 0 {
						end()
					}
					err := call(ctx)
					at := began.Load()
					if cancelled = at != nil; cancelled {
						testkit.Check(t, time.Since(*at) == 0, "cancelled after %d scripts, it went on for %v: %v", n, time.Since(*at), err)
						testkit.Check(t, err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrHeld),
							"cancelled after %d scripts: %v", n, err)
					}
					c.on(nil)
					c.jammed.Store(nil)
					close(healed)
					after()
					c.wantNothingLeft(l)
				})
			}
			testkit.Check(t, n >= 3, "it was cancelled %d times: the test shows nothing", n)
		})
	}
}
