package quorum

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// notOfALock has the terms that do not make another lock.
var notOfALock = []string{"Quorum", "Mode", "Millis", "Events"} // nodes', a reader's, the lease again, hooks'

// A lock that was acquired with other terms is another lock: differences names each of them.
func TestEachTermMakesAnotherLock(t *testing.T) {
	base := defaults()
	for _, terms := range []reflect.Type{reflect.TypeFor[lease.Terms](), reflect.TypeFor[engine.Terms]()} {
		for i := range terms.NumField() {
			field := terms.Field(i)
			if field.Anonymous || slices.Contains(notOfALock, field.Name) {
				continue
			}
			other := base
			switch v := reflect.ValueOf(&other.terms).Elem().FieldByName(field.Name); v.Kind() {
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Int64:
				v.SetInt(v.Int() + int64(time.Second))
			case reflect.Float64:
				v.SetFloat(v.Float() / 2)
			}
			if base.differences(&other) == "" {
				t.Errorf("settings that differ in %v.%s make one lock: see differences in options.go, check there, Lock's comment, and notOfALock here",
					terms, field.Name)
			}
		}
	}
}

// A setting that nobody has thought of is kept by With, and accepted whatever it is.
func TestEachSettingIsKnown(t *testing.T) {
	known := []string{"Settings", "terms", "wait", "retry", "logger", "hooks", "nodeOpts", "nodeOptsSet", "exists", "newOnly",
		"label", "loggerSet", "minHoldSet", "leaseSet", "Min", "Max"}
	for _, field := range append(reflect.VisibleFields(reflect.TypeFor[settings]()), reflect.VisibleFields(reflect.TypeFor[waiting.Retry]())...) {
		if len(field.Index) == 1 && !slices.Contains(known, field.Name) {
			t.Errorf("the setting %s is new: see defaults and check in options.go, newOnly and With in open.go and docs/usage.md#options if it is "+
				"of a new Locker alone, retryBounds in package waiting if it is of a retry, testdata/refused.txt; then "+
				"name it here", field.Name)
		}
	}
}

// Locks that are held, or in their min hold, share the schedule's timer: none has a goroutine.
func TestMinHoldTakesNoGoroutine(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithMinHold(time.Minute))
		c.unlock(c.lock(l, "a"))
		synctest.Wait()
		before := runtime.NumGoroutine()
		var held []*Lock
		for i := range 200 {
			held = append(held, c.lock(l, fmt.Sprint("held ", i)))
			c.unlock(c.lock(l, fmt.Sprint(i)))
		}
		synctest.Wait()
		now := runtime.NumGoroutine()
		testkit.Check(t, now <= before+20, "%d goroutines became %d", before, now)
		for _, lock := range held {
			c.unlock(lock)
		}
		time.Sleep(time.Minute) // of the bubble's time
		synctest.Wait()
		c.wantNothingLeft(l)
	})
}

// A lock that is renewed in time ends no context: not with the longest stop, nor if its renewals are spread.
func TestStopBeforeEndsNoLockThatIsRenewed(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithStopBefore(14 * time.Second))
		var locks []*Lock
		for range 300 {
			locks = append(locks, c.lock(l, strings.Repeat("a", len(locks)+1)))
		}
		time.Sleep(10 * DefaultLease)
		for i, lock := range locks {
			testkit.Require(t, lock.Context().Err() == nil, "lock %d: %v", i, context.Cause(lock.Context()))
		}
		for _, lock := range locks {
			c.unlock(lock)
		}
	})
}

// A context that blocks as it ends delays the stop of no other, not even of the same lock.
func TestStopBeforeEndsEachContextByItself(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, ended, unblock := c.process(WithFixedLease(20*time.Second), WithStopBefore(5*time.Second)), new(atomic.Bool), make(chan struct{})
		defer close(unblock)
		outer := c.lock(l, "a")
		blocked := make(chan struct{}, 8)
		c.got(l.Lock(watched(context.WithoutCancel(outer.Context()), func() { // which would end it, if it ended first
			if ended.Load() {
				blocked <- struct{}{}
				<-unblock
			}
		}, "Done"), "a"))
		ended.Store(true)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		testkit.Require(t, len(blocked) != 0, "nothing blocks: the test shows nothing")
		testkit.Check(t, outer.Context().Err() != nil && outer.Valid(),
			"the outer context: %v, valid %v", outer.Context().Err(), outer.Valid())
	})
}

// ownDone is a context of which package context knows nothing: for each context that derives from it, a goroutine waits for its end.
type ownDone struct{ context.Context }

func (ownDone) Done() <-chan struct{} { return make(chan struct{}) }

const boundedWait = 3 * time.Second

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
		testkit.Check(t, lock.scope.Context == ctx, "the lock's context derives from the one that bounds the waiting")
		before := runtime.NumGoroutine()
		for range 20 {
			other := c.got(l.Lock(ownDone{ctx}, "b"))
			c.unlock(c.got(l.Lock(ownDone{other.Context()}, "b")))
			c.unlock(other)
		}
		synctest.Wait()
		testkit.Check(t, runtime.NumGoroutine() < before+20, "%d goroutines became %d", before, runtime.NumGoroutine())
		why := errors.New("why")
		cancel(why)
		testkit.Equal(t, context.Cause(inner.Context()), why, "the cause is")
		c.unlock(lock)
	})
}

// A call that gives up while it asks for the list of masters gives the reason, too: over pools
// without a name the list may not be known yet.
func TestWaitForTheList(t *testing.T) {
	const short = 300 * time.Millisecond // below a node's timeout
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithWait(short))
		l.engine.Roster = roster.New(l.engine.Nodes, l.engine.Clock, roster.Options{Founds: true, Go: func(f func()) { go f() }, IsClosed: l.engine.IsClosed}) // whose list is not known yet
		over := make(chan struct{})
		c.on(func(string) { <-over })
		err := errorOf(l.Lock(t.Context(), "a"))
		wantError(t, err, ErrNotAcquired, ErrUnavailable, not{context.DeadlineExceeded}, not{context.Canceled}) // the caller's context goes on
		testkit.Equal(t, strings.Count(err.Error(), "gave up after 300ms"), 1, err)
		close(over)
	})
}

// A call that gives up looks only at the calls that want what its flow holds, however many others wait.
func TestACircleIsSoughtAmongFewCalls(t *testing.T) {
	const many, repeats = 5000, 50
	ask, told := make(chan struct{}), make(chan time.Time)
	defer close(ask)
	go func() { // outside the bubble: real time
		for range ask {
			told <- time.Now()
		}
	}()
	now := func() time.Time { ask <- struct{}{}; return <-told }
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		own := c.lock(l, "own")
		few, crowd := &c.process().room.flows, &l.room.flows
		for i := range many {
			crowd.enter(l.newCall(t.Context(), []string{"hot", fmt.Sprint("other ", i)}), own)
		}
		waiting := l.newCall(t.Context(), []string{"hot"})
		least := map[*flows]time.Duration{few: time.Hour, crowd: time.Hour}
		for range 20 { // other work delays some
			for f := range least {
				began := now()
				for range repeats {
					testkit.Check(t, f.circle(waiting, own) == nil, "a circle")
				}
				least[f] = min(least[f], now().Sub(began))
			}
			if least[crowd] < 10*least[few] {
				return
			}
		}
		t.Errorf("%v beside %d calls, %v alone", least[crowd], many, least[few])
	})
}
