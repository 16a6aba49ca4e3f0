package quorum

import (
	"context"
	"errors"
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
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
)

// told collects the events of a Locker's hooks.
type told struct {
	mu sync.Mutex
	toldEvents
}

type toldEvents struct {
	starts   [][]string
	attempts []AttemptEvent
	ends     []LockEvent
	contexts []any // of Attempt and LockEnd: what LockStart put there
	left     []time.Duration
	renewals []RenewalEvent
	repairs  []RepairEvent
}

// take returns the events since it was last called.
func (x *told) take() (all toldEvents) {
	x.mu.Lock()
	defer x.mu.Unlock()
	all, x.toldEvents = x.toldEvents, all
	return all
}

type toldKey struct{}

func (x *told) hooks() Hooks {
	note := func(add func()) {
		x.mu.Lock()
		defer x.mu.Unlock()
		add()
	}
	return Hooks{
		LockStart: func(ctx context.Context, names []string) context.Context {
			note(func() { x.starts = append(x.starts, names) })
			return context.WithValue(ctx, toldKey{}, 1)
		},
		Attempt: func(ctx context.Context, e AttemptEvent) {
			note(func() { x.attempts, x.contexts = append(x.attempts, e), append(x.contexts, ctx.Value(toldKey{})) })
		},
		LockEnd: func(ctx context.Context, e LockEvent) {
			note(func() { x.ends, x.contexts = append(x.ends, e), append(x.contexts, ctx.Value(toldKey{})) })
		},
		Renewing: func(_ *Lock, left, _ time.Duration) { note(func() { x.left = append(x.left, left) }) },
		Renewed:  func(e RenewalEvent) { note(func() { x.renewals = append(x.renewals, e) }) },
		Repaired: func(e RepairEvent) { note(func() { x.repairs = append(x.repairs, e) }) },
	}
}

// A call that waits reports its start, each attempt and its end, in one context, which is not the lock's.
func TestHooksOfACallThatWaits(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var all told
		l := c.process(WithHooks(all.hooks()))
		held := c.lock(c.process(), "a")
		time.AfterFunc(time.Second, func() { held.Unlock(context.Background()) })
		lock := c.lock(l, "a")
		defer c.unlock(lock)
		x := all.take()
		testkit.Check(t, len(x.starts) == 1 && slices.Equal(x.starts[0], []string{"a"}),
			"LockStart was told %v", x.starts)
		n := len(x.attempts)
		require(t, n >= 2 && len(x.ends) == 1,
			"Attempt was told of %d attempts, LockEnd of %d calls", n, len(x.ends))
		first, last, end := x.attempts[0], x.attempts[n-1], x.ends[0]
		if first.Outcome != "held" || !errors.Is(first.Err, ErrHeld) || first.Granted+first.Refused+first.Unknown != 3 ||
			first.Refused < 2 || first.Names[0] != "a" {
			t.Errorf("the first attempt is told as %+v", first)
		}
		testkit.Check(t, last.Outcome == "acquired" && last.Err == nil && last.Granted >= 2,
			"the last attempt is told as %+v", last)
		if end.Outcome != "acquired" || end.Lock != lock || end.Err != nil || end.Attempts != n ||
			end.Duration < time.Second || end.Duration > 2*time.Second || end.Names[0] != "a" {
			t.Errorf("the end is told as %+v after %d attempts", end, n)
		}
		testkit.Check(t, !slices.ContainsFunc(x.contexts, func(v any) bool { return v != 1 }),
			"the contexts of the hooks have %v from LockStart", x.contexts)
		testkit.Check(t, lock.Context().Value(toldKey{}) == nil, "the lock's context derives from the hooks'")
	})
}

// The token is written back to the nodes with lower counters.
func TestHookOfAWriteBack(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var all told
		l := c.process(WithHooks(all.hooks()))
		c.raiseCounters(l, 0)
		late := make(chan struct{})
		c.before(2, func() { <-late })
		lock := c.lock(l, "a")
		close(late)
		x := all.take()
		testkit.Check(t, x.attempts[0].WriteBacks == 1 && l.Stats().WriteBacks == 1,
			"told %+v, counted %+v", x.attempts, l.Stats())
		c.unlock(lock)
	})
}

// A renewal is reported for each node and for the lock; a node that forgot the lock is repaired.
func TestHooksOfRenewals(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 3 * time.Second
		var all told
		plain := c.process(WithLease(lease))
		l := plain.With(WithHooks(all.hooks()))
		lock := c.lock(l, "a")
		other := c.lock(plain, "b") // in the same batches; it has no hooks
		time.Sleep(lease/3 + 10*time.Millisecond)
		synctest.Wait()
		x := all.take()
		testkit.Check(t, len(x.left) == 1 && x.left[0] >= lease/2 && x.left[0] <= lease*2/3,
			"a third into a lease of %v, Renewing is told %v", lease, x.left)
		nodes := map[string]bool{}
		for _, e := range x.renewals {
			nodes[e.Node] = true
			testkit.Check(t, e.Renewed == 1 && e.Forgotten+e.Taken+e.Failed == 0 && e.Err == nil,
				"a renewal is told as %+v", e)
		}
		testkit.Check(t, len(x.renewals) == 3 && len(nodes) == 3,
			"the renewals on three nodes are told as %+v", x.renewals)
		if s := l.Stats(); s.Held != 2 || s.Nodes[0].Renewals != 2 || s.Nodes[0].RenewalsFailed != 0 {
			t.Errorf("%+v", s)
		}

		c.Masters[0].Flush()
		l.Lock(t.Context(), "c") // marks the master again
		time.Sleep(lease)
		synctest.Wait()
		x = all.take()
		forgotten := 0
		for _, e := range x.renewals {
			forgotten += e.Forgotten + e.Failed
		}
		if forgotten == 0 || len(x.repairs) != 1 || x.repairs[0].Err != nil || x.repairs[0].Lock != lock ||
			x.repairs[0].Node != "master0" {
			t.Errorf("a master that forgot is told as %+v, and the repairs as %+v", x.renewals, x.repairs)
		}
		if s := l.Stats(); s.Nodes[0].Repairs != 2 || s.Nodes[0].RenewalsFailed == 0 {
			t.Errorf("%+v", s)
		}
		c.unlock(lock)
		c.unlock(other)
	})
}

// Hooks of a call that panic, or end the goroutine, leave no lock behind. Each is called if it is the only one.
func TestHooksOfACallThatPanic(t *testing.T) {
	notOfACall := []string{"Released", "Lost", "Renewing", "Renewed", "Repaired"}
	for _, hook := range reflect.VisibleFields(reflect.TypeFor[Hooks]()) {
		if slices.Contains(notOfACall, hook.Name) {
			continue
		}
		runInCluster(t, hook.Name, func(t *testing.T, c *cluster) {
			plain := c.process()
			panics := plain.With(WithHooks(testkit.HooksThat[Hooks](func() { panic(callerPanic{}) }, hook.Name)))
			exits := plain.With(WithHooks(testkit.HooksThat[Hooks](runtime.Goexit, hook.Name)))
			returned := func() { t.Error("the call has returned: see observe in hooks.go, or notOfACall here") }
			for _, call := range []func(){
				func() { panics.Lock(t.Context(), "a"); returned() },
				func() { panics.TryLock(t.Context(), "a"); returned() },
				func() { exits.Lock(t.Context(), "a"); returned() },
			} {
				endsGoroutine(call)
				c.wantNothingLeft(plain)
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
		if n := l.Stats().EventsDropped; n != 0 || behind.Load() != 0 {
			t.Errorf("%d events were dropped, and %d told during the first", n, behind.Load())
		}
		for range events.MaxWaiting {
			l.core.events.Post(func() {})
		}
		testkit.Check(t, l.Stats().EventsDropped != 0, "no event was dropped")
		c.unlock(lock)
		began := time.Now()
		l.Close()
		wantTook(t, began, 0, 3*time.Second)
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
	c, set, names := &core{}, defaults(), []string{"a"} // without a clock: to read it would panic
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		o := c.observe(ctx, &set, names)
		o.attempting()
		o.attempted(nil, nil, nil)
		o.ended(nil, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Each field of a node's events is set.
func TestEventsOfNodesLackNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		x := new(told)
		l := c.process(WithHooks(x.hooks()))
		lock, why := c.lock(l, "a"), errors.New("on purpose")
		o := &observer{l.core, l.set}
		o.Renewed(0, engine.Renewals{Renewed: 1, Forgotten: 2, Taken: 3, Failed: 4, Err: why})
		o.Repaired(lock.handle.Hold(), 0, why)
		synctest.Wait()
		all := x.take()
		testkit.Equal(t, all.renewals[0], RenewalEvent{Node: l.Nodes()[0], Renewed: 1, Forgotten: 2, Taken: 3, Failed: 4, Err: why}, "a renewal")
		testkit.Equal(t, all.repairs[0], RepairEvent{Node: l.Nodes()[0], Lock: lock, Err: why}, "a repair")
		for _, e := range []any{all.renewals[0], all.repairs[0]} {
			for i, v := 0, reflect.ValueOf(e); i < v.NumField(); i++ {
				testkit.Check(t, !v.Field(i).IsZero(), "%T lacks %s", e, v.Type().Field(i).Name)
			}
		}
		c.unlock(lock)
	})
}
