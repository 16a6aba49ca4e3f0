package quorum

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// Waiters get their turns in the order they came, and cost no more than the first of them does.
func TestQueueKeepsTheOrderOfArrival(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held, other := c.lock(l, "a"), c.lock(l, "c")
		results, others := make(chan lockResult, 10), make(chan lockResult, 1)
		calls := int64(0)
		for i := range 10 {
			names := []string{"a", "b"}
			if i%2 == 1 {
				slices.Reverse(names) // the same names in another order
			}
			startWaiter(t.Context(), l, i, results, names...)
			if i == 0 {
				time.Sleep(shortly) // until all that is left is to wait
				calls = c.calls.Load()
			}
		}
		testkit.Equal(t, c.calls.Load()-calls, 0, "calls by waiters behind the first")
		startWaiter(t.Context(), l, 0, others, "c") // a waiter for other names is in another queue
		c.unlock(other)
		c.unlock(c.nextLock(others, shortly))
		c.unlock(held)
		for i := range 10 {
			got := c.next(results, shortly)
			require(t, got.err == nil && got.waiter == i, "lock %d is waiter %d's: %v", i, got.waiter, got.err)
			c.unlock(got.lock)
		}
		c.wantNoQueues(l)
	})
}

// Two sets of names never share a queue: the waiters of one set would wait for the other's names.
func TestQueueKeysDoNotCollide(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held := c.lock(l, "a", "b")
		results := c.waits(l, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.unlock(c.got(l.Lock(ctx, "1:a1:b"))) // the name is free
		c.unlock(held)
		c.unlock(c.nextLock(results, shortly))
		c.wantNoQueues(l)
	})
}

// A cancelled waiter leaves at once, from any place in the queue. That costs no call to a node, and
// the order of the others stays.
func TestQueueIsLeftFromTheMiddle(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held := c.lock(l, "a")
		results := make(chan lockResult, 6)
		cancel := make([]context.CancelFunc, 6)
		for i := range cancel {
			var ctx context.Context
			ctx, cancel[i] = context.WithCancel(t.Context())
			startWaiter(ctx, l, i, results, "a")
		}
		calls, since := c.calls.Load(), time.Now()
		for _, i := range []int{2, 5, 3} {
			cancel[i]()
			got := c.next(results, shortly)
			if got.waiter != i || !errors.Is(got.err, context.Canceled) ||
				!errors.Is(got.err, ErrHeld) || !errors.Is(got.err, ErrNotAcquired) {
				t.Errorf("waiter %d was cancelled; waiter %d returned: %v", i, got.waiter, got.err)
			}
			synctest.Wait()
		}
		took, more := time.Since(since), c.calls.Load()-calls
		testkit.Check(t, took == 0 && more == 0, "three waiters left in %v with %d calls, want 0 of both", took, more)
		c.unlock(held)
		for _, i := range []int{0, 1, 4} {
			got := c.next(results, shortly)
			require(t, got.err == nil && got.waiter == i,
				"the next lock is waiter %d's, not waiter %d's: %v", i, got.waiter, got.err)
			c.unlock(got.lock)
		}
		for _, stop := range cancel {
			stop()
		}
		c.wantNoQueues(l)
	})
}

// mustBegin begins an attempt of the call.
func mustBegin(t *testing.T, p *queue.Place) {
	t.Helper()
	_, due := p.Next(t.Context())
	require(t, due, "no attempt is due")
}

// The last waiter leaves nothing behind: no queue, subscription, connection for messages, goroutine
// or timer.
func TestQueueLeavesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(c.process(), "a")
		l.TryLock(t.Context(), "a")
		time.Sleep(time.Second)
		synctest.Wait()
		before := countGoroutines()
		results := make(chan lockResult, 20)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			names := []string{"a", "b", "c"}[:1+i%3]
			startWaiter(ctx, l, i, results, names...)
		}
		testkit.Equal(t, c.subscriptions("a"), 3, "connections that subscribe for 20 waiters")
		testkit.Equal(t, ofList(l, "queues"), 3, "queues for three sets of names")
		cancel()
		for range 20 {
			<-results
		}
		synctest.Wait()
		c.wantNoQueues(l)
		testkit.Equal(t, c.subscriptions("a")+c.subscriptions("b")+c.subscriptions("c"), 0, "subscriptions are left")
		time.Sleep(time.Second) // the connection for messages lingers
		synctest.Wait()
		after := countGoroutines()
		testkit.Check(t, after <= before, "%d goroutines before, %d after", before, after)
		c.unlock(held)
	})
}

// countGoroutines counts the goroutines that run. runtime.NumGoroutine includes those that have
// just ended.
func countGoroutines() int {
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "\ngoroutine ")
}

// The end of a dead holder's lease wakes the head.
func TestQueueWakesAtTheEndOfTheLease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 300 * time.Millisecond
		l := c.process(WithRetry(time.Minute, time.Minute))
		holder := c.process(WithLease(lease))
		since := time.Now()
		c.lock(holder, "a")
		holder.Close() // the key is left to its lease
		results := c.waits(l, "a")
		c.unlock(c.nextLock(results, time.Second))
		// A probe that was refused last waits for ten steps, and a poll for minutes.
		wantTook(t, since, lease, lease+10*waiting.MaxStep+shortly)
		c.wantNoQueues(l)
	})
}

// Close ends every call that waits.
func TestQueueEndsWithTheLocker(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(c.process(), "a")
		results := make(chan lockResult, 5)
		for i := range 5 {
			startWaiter(t.Context(), l, i, results, "a")
		}
		time.Sleep(shortly) // until all that is left is to wait
		since := time.Now()
		l.Close()
		for range 5 {
			wantError(t, c.next(results, shortly).err, ErrClosed)
		}
		wantTook(t, since, 0, 0)
		c.wantNoQueues(l)
		c.unlock(held)
	})
}

// The error of a call that gives up reports another owner only if an attempt has found one.
func TestQueueErrorOfACallThatGivesUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		results := make(chan lockResult, 1)
		wait := func() error {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), shortly)
			defer cancel()
			startWaiter(ctx, l, 0, results, "a")
			got := c.next(results, 2*shortly)
			require(t, got.err != nil, "Lock has acquired it")
			wantError(t, got.err, ErrNotAcquired, context.DeadlineExceeded)
			return got.err
		}
		held := c.lock(l, "a")
		wantError(t, wait(), ErrHeld, not{ErrUnavailable}) // another owner holds the lock
		c.unlock(held)

		// An attempt is under way without an answer.
		crash(c.masters, fakeredis.Everything)
		asking := l.joins()
		mustBegin(t, asking)
		wantError(t, wait(), not{ErrHeld}, ErrUnavailable) // no node has answered
		asking.Leave()
		startAll(c, 5*time.Second)

		// The nodes failed, and then another waiter of this process acquired the lock.
		first, behind := l.joins(), l.joins()
		mustBegin(t, first)
		unavailable := &Error{causes: []error{ErrNotAcquired, ErrUnavailable}}
		first.Refused(waiting.Result{Wait: -1}, waiting.AskAll, unavailable, nil)
		lock, _ := l.core.attempt(t.Context(), l.set, target{names: []string{"a"}}, waiting.AskAll)
		first.Acquired(DefaultLease, false)
		// another waiter has acquired the lock
		wantError(t, l.gaveUp(behind.LastError(), []string{"a"}, nil), ErrHeld, not{ErrUnavailable})
		behind.Leave()
		c.unlock(lock)
		c.wantNoQueues(l)
	})
}

// An attempt that is cut short, by the caller's context or by Close, finds out less than the
// attempt before: the error has the earlier reason.
func TestQueueKeepsWhatTheLastAttemptFound(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, holder := c.process(), c.process()
		ctx, cancel := context.WithCancel(t.Context())
		for _, end := range []struct {
			how  func()
			want error
		}{{cancel, context.Canceled}, {func() { go l.Close() }, ErrClosed}} {
			held := c.lock(holder, "a")
			results := make(chan lockResult, 1)
			startWaiter(ctx, l, 0, results, "a")
			answers, calls := c.stall(), c.calls.Load()
			for c.calls.Load() < calls+3 { // the poll
				time.Sleep(time.Millisecond)
			}
			end.how()
			wantError(t, c.next(results, shortly).err, ErrHeld, end.want)
			answers()
			c.unlock(held)
			ctx = t.Context()
		}
	})
}

// A waiter for several names wakes at the release of the one that was held, be it the first or the last.
func TestQueueWakesForEachOfItsNames(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, holder := c.process(WithRetry(time.Minute, time.Minute)), c.process()
		for _, name := range []string{"a", "b", "c"} {
			held := c.lock(holder, name)
			results := c.waits(l, "a", "b", "c")
			time.Sleep(shortly) // until all that is left is to wait
			free := map[string]string{"a": "b", "b": "c", "c": "a"}[name]
			c.unlock(c.lock(l, free)) // who can get its name does not wait behind one who wants others, too
			c.unlock(held)
			c.unlock(c.nextLock(results, shortly))
		}
		c.wantNoQueues(l)
	})
}

// timerCount is a clock that counts the timers that are set: that have neither fired nor been
// stopped.
type timerCount struct {
	clock.Clock
	pending atomic.Int64
}

func (c *timerCount) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.pending.Add(1)
	return &countedTimer{count: c, Timer: c.Clock.AfterFunc(d, func() {
		c.pending.Add(-1)
		f()
	})}
}

type countedTimer struct {
	clock.Timer
	count *timerCount
}

func (t *countedTimer) Stop() bool {
	pending := t.Timer.Stop()
	if pending {
		t.count.pending.Add(-1)
	}
	return pending
}

func (t *countedTimer) Reset(d time.Duration) bool {
	pending := t.Timer.Reset(d)
	if !pending {
		t.count.pending.Add(1)
	}
	return pending
}

// A waiter that leaves stops its timer: a timer of the longest bounds would keep the waiter and its
// queue for hours.
func TestQueueStopsTheTimerOfAWaiterThatLeaves(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		count := &timerCount{Clock: fakeclock.Monotonic()}
		l := c.process(WithRetry(time.Hour, time.Hour), withClock(count))
		held := c.lock(c.process(WithMaxHold(24*time.Hour)), "a")
		before := count.pending.Load()
		results := make(chan lockResult, 2)
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		startWaiter(first, l, 0, results, "a")
		startWaiter(second, l, 1, results, "a")
		for left, cancel := range []context.CancelFunc{nil, cancelFirst, cancelSecond} {
			want := before
			if left < 2 {
				want++ // the head's
			}
			if cancel != nil {
				cancel()
				<-results
			}
			if pending := count.pending.Load(); pending != want {
				t.Errorf("%d timers are set after %d of two waiters have left, want %d", pending, left, want)
			}
		}
		c.wantNoQueues(l)
		c.unlock(held)
	})
}

// The longest bounds that the options allow do no harm.
func TestQueueWithTheLongestBounds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(maxRetry, maxRetry), WithMaxHold(maxMaxHold))
		held := c.lock(l, "a")
		results := c.waits(l, "a")
		testkit.Check(t, !held.Deadline().IsZero(), "it has no deadline")
		c.unlock(held)
		c.unlock(c.nextLock(results, shortly))
		c.wantNoQueues(l)

		crash(c.masters, fakeredis.Everything)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantError(t, errorOf(l.Lock(ctx, "a")), ErrUnavailable)
		c.wantNoQueues(l)
	})
}

// A queue is used again only when no subscriber knows it: messages of its old names would wake the new ones.
func TestQueueWithSubscribersIsNotUsedAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.unlock(c.lock(l, "a"))
		testkit.Equal(t, ofList(l, "spare"), 1, "spare queues, after one that nobody waited in")
		held := c.lock(c.process(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan lockResult, 1)
		startWaiter(ctx, l, 0, left, "a")
		cancel()
		<-left
		testkit.Equal(t, ofList(l, "spare"), 0, "spare queues, after one that has subscribers")
		c.unlock(held)
		c.wantNoQueues(l)
	})
}

// The error of a call that gives up has what all nodes said rather than what the probe node said, unless nodes
// have failed since.
func TestQueueTellsWhatAllNodesSaid(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		w := c.process().joins()
		defer w.Leave()
		var want *Error
		for _, attempt := range []struct {
			approach waiting.Approach
			held     bool
			told     bool
		}{
			{waiting.ProbeFirst, true, true}, // nothing else is known
			{waiting.AskAll, true, true},
			{waiting.ProbeFirst, true, false},
			{waiting.ProbeFirst, false, true},
			{waiting.AskAll, true, true},
		} {
			said := &Error{}
			if attempt.told {
				want = said
			}
			w.Refused(waiting.Result{Held: attempt.held, Wait: -1}, attempt.approach, said, nil)
			testkit.Check(t, w.LastError() == want, "after %+v another error is told", attempt)
		}
	})
}

// Messages may be lost: all of them, or with their connections. The waiter still gets the lock.
func TestQueueGoesOnWithoutMessages(t *testing.T) {
	for what, release := range map[string]func(c *cluster, held *Lock){
		"no master publishes": func(c *cluster, _ *Lock) {
			for i := range c.masters {
				c.command(i, "DEL", "a")
			}
		},
		"the connections die with the release": func(c *cluster, held *Lock) {
			for i := range c.masters {
				c.hangUp(i)
			}
			c.unlock(held)
		},
	} {
		runInCluster(t, what, func(t *testing.T, c *cluster) {
			held := c.lockKnown(c.process(), "a")
			results := c.waits(c.process(), "a")
			time.Sleep(shortly) // until all that is left is to wait
			release(c, held)
			c.unlock(c.nextLock(results, aPoll))
		})
	}
}

// A node that is closed for good, one of three, does not end the waiting.
func TestQueueGoesOnWithoutAClosedNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, held, results := c.process(), c.lock(c.process(), "a"), make(chan lockResult, 1)
		l.core.Nodes[0].Close()
		startWaiter(t.Context(), l, 0, results, "a")
		time.Sleep(time.Second)
		c.wantNone(results, "during the hold")
		c.unlock(held)
		c.unlock(c.nextLock(results, aPoll))
	})
}

// A dead master that the quorum does not need changes nothing about why an attempt fails.
func TestHeldIsTheReason(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.lockKnown(c.process(), "a")
		c.masters[0].Crash(fakeredis.Everything)
		for range 100 {
			wantError(t, errorOf(l.TryLock(t.Context(), "a")), ErrHeld, not{ErrUnavailable})
		}
	})
}
