package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/events"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/scripts"
)

// Hooks of a call that panic, or end the goroutine, leave no lock behind. Each is called if it is the only one.
func TestHooksOfACallThatPanic(t *testing.T) {
	notOfACall := []string{"Released", "Lost", "Renewing", "Renewed", "Repaired"}
	for _, hook := range reflect.VisibleFields(reflect.TypeFor[Hooks]()) {
		if slices.Contains(notOfACall, hook.Name) {
			continue
		}
		runInCluster(t, hook.Name, func(t *testing.T, c *cluster) {
			plain := c.process(WithRetry(time.Minute, time.Minute))
			returned := func() { t.Error("the call has returned: see observe in hooks.go, or notOfACall here") }
			for _, cry := range []func(){func() { panic(callerPanic{}) }, runtime.Goexit} {
				var notes Hooks
				var seen *Lock
				if hook.Name == "Acquired" { // for another hook, Acquired would be a second one
					notes.Acquired = func(lock *Lock) { seen = lock }
				}
				l := plain.With(WithHooks(notes), WithHooks(testkit.HooksThat[Hooks](cry, hook.Name)))
				for _, call := range []func(){
					func() { l.Lock(t.Context(), "a"); returned() },
					func() { l.TryLock(t.Context(), "a"); returned() },
					func() {
						l.Do(t.Context(), func(context.Context, *Lock) error { t.Error("fn was called"); return nil }, "a")
						returned()
					},
					func() { // it waits
						held := c.lock(plain, "a")
						defer time.Sleep(2 * time.Second)
						time.AfterFunc(time.Second, func() { held.Unlock(context.Background()) })
						l.Lock(t.Context(), "a")
						returned()
					},
				} {
					endsGoroutine(call)
					testkit.Check(t, (seen != nil) == (hook.Name == "Acquired"), "Acquired was called: %v", seen != nil)
					testkit.Check(t, seen == nil || !seen.Valid() && context.Cause(seen.Context()) == ErrReleased, "%v is valid", seen)
					c.wantNothingLeft(plain)
				}
			}
			testkit.Equal(t, plain.Stats().Waiting, 0, "calls are counted as waiting")
		})
	}
}

// A hook of renewals that blocks for ever costs no lock, and Close does not wait for it for long.
func TestHookOfRenewalsThatBlocks(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		goOn, behind := make(chan struct{}), atomic.Int64{}
		defer close(goOn)
		l := c.process(WithLease(time.Second), WithHooks(Hooks{
			Renewing: func(*Lock, time.Duration, time.Duration) { <-goOn },
			Renewed:  func(RenewalEvent) { behind.Add(1) },
		}))
		lock := c.lock(l, "a")
		time.Sleep(time.Minute)
		testkit.Check(t, lock.Valid(), "the lock is lost: %v", lock.Err())
		testkit.Check(t, l.Stats().EventsDropped == 0 && behind.Load() == 0, "events were dropped, or %d told during the first", behind.Load())
		for range events.MaxWaiting {
			l.meter.events.Post(func() {})
		}
		testkit.Check(t, l.Stats().EventsDropped != 0, "no event was dropped")
		c.unlock(lock)
		began := time.Now()
		l.Close()
		wantTook(t, began, 0, 3*time.Second)
	})
}

// The hooks of renewals that are on their way at Close run before it returns, if it closes the nodes.
func TestNoHookRunsAfterClose(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		p := c.NewProcess()
		var addresses, urls []string
		dial := func(ctx context.Context, _, address string) (net.Conn, error) {
			return p.Dial(ctx, slices.Index(addresses, address))
		}
		for i := range c.Masters {
			addresses = append(addresses, world.Address(i))
			urls = append(urls, "redis://"+addresses[i])
		}
		told := 0 // the hooks run one at a time
		l := testkit.Got(Open(urls, Majority, withClock(c.Clock), WithLease(3*time.Second),
			WithNodeOptions(append(c.nodeOptions(), node.WithDialer(dial))...),
			WithHooks(Hooks{Renewed: func(RenewalEvent) { time.Sleep(time.Millisecond); told++ }})))(t)
		c.lock(l, "a")
		synctest.Wait()
		c.delay(500 * time.Millisecond)
		time.Sleep(1100 * time.Millisecond) // renewals are on their way
		l.Close()
		testkit.Equal(t, told, 3, "replies of masters that were told")
		c.delay(0)
	})
}

// Nor does one if the releases took the whole bound before.
func TestAwaitAfterTheBound(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		testkit.Check(t, await(over, new(events.Queue).Idle), "what is idle counts as not")
	}
}

// Close in a hook that the Locker runs waits for that hook, no longer than for its bound. Anywhere else it returns at once.
func TestCloseInAHook(t *testing.T) {
	const bound = 2 * time.Second // two timeouts of the nodes
	waits := []string{"Lost", "Renewing", "Renewed", "Repaired"}
	for _, hook := range reflect.VisibleFields(reflect.TypeFor[Hooks]()) {
		for i := range 4 {
			byItself, owned := i%2 > 0, i > 1
			what := fmt.Sprintf("%s, in a goroutine of its own: %v, closes the nodes: %v", hook.Name, byItself, owned)
			runInCluster(t, what, func(t *testing.T, c *cluster) {
				var l *Locker
				took := make(chan time.Duration, 1)
				end := func() {
					began := time.Now()
					l.Close()
					took <- time.Since(began)
				}
				if byItself {
					inner := end
					end = func() { go inner() }
				}
				end = sync.OnceFunc(end)
				l = c.process(WithLease(3*time.Second), WithHooks(testkit.HooksThat[Hooks](end, hook.Name)))
				l.end = sync.OnceFunc(func() { l.endAll(owned) })
				if lock, err := l.Lock(t.Context(), "a"); err == nil {
					synctest.Wait() // all masters have granted, not a quorum alone
					switch hook.Name {
					case "Lost":
						for _, m := range c.Masters {
							m.Take([]string{"a"}, lock.Owner(), "another:1")
						}
					case "Repaired":
						c.Masters[0].Free([]string{"a"}, lock.Owner(), scripts.MarkerKey)
					case "Released":
						lock.Unlock(t.Context())
					}
					time.Sleep(2 * time.Second) // a renewal
				}
				want := time.Duration(0)
				if !byItself && slices.Contains(waits, hook.Name) {
					want = bound
				}
				testkit.Equal(t, <-took, want, "Close took")
				time.Sleep(bound)
				synctest.Wait()
				testkit.Equal(t, Left(l), "", "what is left")
			})
		}
	}
}

// A hook may keep an attempt's error, and read it in another goroutine, while the call adds to its own.
func TestErrorOfAnAttemptDoesNotChange(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		said := map[error]string{}
		l := c.process(WithHooks(Hooks{Attempt: func(_ context.Context, e AttemptEvent) {
			said[e.Err] = e.Err.Error()
			testkit.Check(t, e.Duration >= 0 && e.Duration < time.Second, "it took %v", e.Duration)
		}}))
		defer c.unlock(c.lock(c.process(), "a"))
		l.TryLock(t.Context(), "a")
		ctx := testkit.Within(t, 2*time.Second)
		l.Lock(ctx, "a")
		testkit.Check(t, len(said) >= 3, "%d attempts", len(said))
		for err, before := range said {
			testkit.Equal(t, err.Error(), before, "the error")
		}
	})
}

// LockEnd is as a deferred call.
func TestWithHooksAdds(t *testing.T) {
	testkit.AddsHooks(t, func(all ...Hooks) Hooks {
		var set settings
		for _, h := range all {
			WithHooks(h)(&set)
		}
		return set.hooks
	}, "LockEnd")
}

// A call without hooks allocates nothing for them, and reads no clock: there is no observation.
func TestNoHooksCostNothing(t *testing.T) {
	set, names := defaults(), []string{"a"}
	l := &Locker{set: &set} // without a clock: to read it would panic
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		o := l.observe(ctx, names)
		o.attempting()
		o.attempted(nil, queue.Result{})
		o.ended(nil, nil)
	})
	testkit.Check(t, n == 0, "%v allocations", n)
}

// Each field of a node's events is set.
func TestEventsOfNodesLackNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var renewed RenewalEvent
		var repaired RepairEvent
		l := c.process(WithHooks(Hooks{Renewed: func(e RenewalEvent) { renewed = e }, Repaired: func(e RepairEvent) { repaired = e }}))
		lock, why := c.lock(l, "a"), errors.New("on purpose")
		o := (*observer)(l)
		o.Renewed(0, engine.Renewals{Renewed: 1, Forgotten: 2, Taken: 3, Failed: 4, Err: why})
		o.Repaired(lock.handle.Hold(), 0, why)
		synctest.Wait()
		testkit.Equal(t, renewed, RenewalEvent{Node: l.Nodes()[0], Renewed: 1, Forgotten: 2, Taken: 3, Failed: 4, Err: why}, "a renewal")
		testkit.Equal(t, repaired, RepairEvent{Node: l.Nodes()[0], Lock: lock, Err: why}, "a repair")
		s := l.Stats().Nodes[0]
		testkit.Check(t, s.Renewals == 1 && s.RenewalsFailed == 9 && s.Repairs == 0 && s.RepairsFailed == 1, "%+v", s)
		for _, e := range []any{renewed, repaired} {
			for i, v := 0, reflect.ValueOf(e); i < v.NumField(); i++ {
				testkit.Check(t, !v.Field(i).IsZero(), "%T lacks %s", e, v.Type().Field(i).Name)
			}
		}
		c.unlock(lock)
	})
}
