package quorum

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

func TestQueueKeepsTheOrderOfArrival(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held, other := c.lock(l, "a"), c.lock(l, "c")
		results, others := make(chan turned, 10), make(chan turned, 1)
		for i := range 10 {
			names := []string{"a", "b"}
			if i%2 == 1 {
				slices.Reverse(names) // the same names, in whatever order
			}
			queueUp(t.Context(), l, i, results, names...)
		}
		queueUp(t.Context(), l, 0, others, "c") // who waits for other names is in no line with them
		c.unlock(other)
		c.unlock(c.next(others, shortly).lock)
		c.unlock(held)
		for i := range 10 {
			got := c.next(results, shortly)
			if got.err != nil || got.who != i {
				t.Fatalf("turn %d is that of %d: %v", i, got.who, got.err)
			}
			c.unlock(got.lock)
		}
		c.empty(l)
	})
}

// Two sets of names never wait in one queue, whatever is in them: the second would wait for the first one's, which it does not want.
func TestQueueKeysDoNotCollide(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held := c.lock(l, "a", "b")
		results := make(chan turned, 1)
		queueUp(t.Context(), l, 0, results, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		free, err := l.Lock(ctx, "1:a1:b")
		if err != nil {
			t.Fatalf("nobody holds it: %v", err)
		}
		c.unlock(free)
		c.unlock(held)
		c.unlock(c.next(results, shortly).lock)
		c.empty(l)
	})
}

// Whoever is cancelled leaves at once, wherever it stands. Nobody asks the nodes for that, and the order of the others stays.
func TestQueueIsLeftFromTheMiddle(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held := c.lock(l, "a")
		results := make(chan turned, 6)
		cancel := make([]context.CancelFunc, 6)
		for i := range cancel {
			var ctx context.Context
			ctx, cancel[i] = context.WithCancel(t.Context())
			queueUp(ctx, l, i, results, "a")
		}
		calls, since := c.calls.Load(), time.Now()
		for _, i := range []int{2, 5, 3} {
			cancel[i]()
			got := c.next(results, shortly)
			if got.who != i || !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, ErrHeld) || !errors.Is(got.err, ErrNotAcquired) {
				t.Errorf("%d was cancelled; %d: %v", i, got.who, got.err)
			}
			synctest.Wait()
		}
		if took, more := time.Since(since), c.calls.Load()-calls; took != 0 || more != 0 {
			t.Errorf("three were cancelled in %v with %d calls, want none of either", took, more)
		}
		c.unlock(held)
		for _, i := range []int{0, 1, 4} {
			got := c.next(results, shortly)
			if got.err != nil || got.who != i {
				t.Fatalf("it is the turn of %d, not of %d: %v", i, got.who, got.err)
			}
			c.unlock(got.lock)
		}
		for _, stop := range cancel {
			stop()
		}
		c.empty(l)
	})
}

// The first is cancelled as it is woken: whatever it had heard of, and whether or not it had begun to ask, the next one asks.
func TestQueueHandsTheTurnOn(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		for round := range 50 {
			held := c.lock(l, "a")
			results := make(chan turned, 2)
			ctx, cancel := context.WithCancel(t.Context())
			queueUp(ctx, l, 0, results, "a")
			queueUp(t.Context(), l, 1, results, "a")
			go held.Unlock(context.Background())
			for range round % 10 {
				runtime.Gosched()
			}
			cancel()
			for range 2 {
				switch got := c.next(results, shortly); {
				case got.err == nil:
					c.unlock(got.lock)
				case got.who == 1:
					t.Fatal(got.err)
				}
			}
			synctest.Wait()
		}
		c.empty(l)
	})
}

// A waiter whose attempt is under way leaves, and takes what was heard meanwhile with it: the next one asks.
func TestQueueAsksAgainForOneThatLeavesAsking(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		held := c.lock(c.process(), "a")
		first, second := l.waitlist.join(l.set.retry, []string{"a"}), l.waitlist.join(l.set.retry, []string{"a"})
		first.mustBegin(t)
		synctest.Wait()
		if _, due := second.begin(); due {
			t.Fatal("two are to ask")
		}
		c.unlock(held)
		synctest.Wait()
		first.leave()
		synctest.Wait()
		if len(second.wake) == 0 {
			t.Error("nothing wakes the next one")
		}
		second.mustBegin(t)
		second.refused([]string{"a"}, &attemptResult{Result: waiting.Result{Held: true, Wait: -1}})
		if _, due := second.begin(); due {
			t.Error("it asks again although nothing was heard")
		}
		third, fourth := l.waitlist.join(l.set.retry, []string{"a"}), l.waitlist.join(l.set.retry, []string{"a"})
		for len(second.wake) > 0 {
			<-second.wake
		}
		fourth.leave()
		synctest.Wait()
		if _, due := second.begin(); due || len(second.wake) > 0 {
			t.Error("one that leaves from behind wakes the first")
		}
		second.leave()
		if _, due := third.begin(); due {
			t.Error("it asks although nothing was heard")
		}
		third.leave()
		c.empty(l)
	})
}

// mustBegin begins an attempt of the waiter's.
func (w *waiter) mustBegin(t *testing.T) {
	t.Helper()
	if _, due := w.begin(); !due {
		t.Fatal("it is not to ask")
	}
}

// When the last has left, nothing is: no queue, no subscription, no connection for messages, no goroutine, no timer.
func TestQueueLeavesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(c.process(), "a")
		l.TryLock(t.Context(), "a")
		time.Sleep(time.Second)
		synctest.Wait()
		before := goroutines()
		results := make(chan turned, 20)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			names := []string{"a", "b", "c"}[:1+i%3]
			queueUp(ctx, l, i, results, names...)
		}
		if got := c.listening("a"); got != 3 {
			t.Errorf("%d connections listen for 20 waiters, want one for each master", got)
		}
		if n := len(l.waitlist.queues); n != 3 {
			t.Errorf("%d queues for three sets of names", n)
		}
		cancel()
		for range 20 {
			<-results
		}
		synctest.Wait()
		c.empty(l)
		if got := c.listening("a") + c.listening("b") + c.listening("c"); got != 0 {
			t.Errorf("%d subscriptions are left", got)
		}
		time.Sleep(time.Second) // the connection for messages is kept for a moment
		synctest.Wait()
		if after := goroutines(); after > before {
			t.Errorf("%d goroutines before, %d after", before, after)
		}
		c.unlock(held)
	})
}

// goroutines counts those that run. runtime.NumGoroutine counts one that has just ended, too.
func goroutines() int {
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "\ngoroutine ")
}

// A call that comes soon after somebody waited probes one node: it is hardly its turn, and a refusal then costs one call.
func TestQueueProbesWhereOthersWaited(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		results := make(chan turned, 1)
		held := c.lock(l, "a")
		queueUp(t.Context(), l, 0, results, "a")
		c.unlock(held)
		c.unlock(c.next(results, shortly).lock)
		held = c.lock(c.process(), "a")
		for _, round := range []struct {
			after       time.Duration
			least, most int64
		}{{contendedFor - time.Millisecond, 1, 1}, {time.Millisecond, 3, 4}} { // the last node may have to hear a release
			time.Sleep(round.after)
			calls := c.calls.Load()
			w := l.waitlist.join(l.set.retry, []string{"a"})
			approach, due := w.begin()
			if !due {
				t.Fatal("it is not to ask")
			}
			if lock, _ := l.core.attempt(t.Context(), l.set, []string{"a"}, approach); lock != nil {
				t.Fatal("two hold it")
			}
			w.leave()
			if more := c.calls.Load() - calls; more < round.least || more > round.most {
				t.Errorf("%d calls, want %d to %d", more, round.least, round.most)
			}
		}
		c.unlock(held)
		c.empty(l)
	})
}

// Several calls that come at once ask once: those behind the first act on its result.
func TestQueueBehindTheFirstAttempt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute))
		results := make(chan turned, 3)
		first := l.waitlist.join(l.set.retry, []string{"a"})
		first.mustBegin(t)
		calls := c.calls.Load()
		queueUp(t.Context(), l, 1, results, "a")
		if more := c.calls.Load() - calls; more > 0 {
			t.Errorf("%d calls by one who is to wait", more)
		}
		first.leave() // in vain
		c.unlock(c.next(results, shortly).lock)
		c.empty(l)

		first = l.waitlist.join(l.set.retry, []string{"a"})
		first.mustBegin(t)
		lock, _ := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.AskAll)
		queueUp(t.Context(), l, 1, results, "a")
		first.acquired(DefaultLease)
		queueUp(t.Context(), l, 2, results, "a")
		c.unlock(lock)
		for who := 1; who <= 2; who++ {
			got := c.next(results, shortly)
			if got.err != nil || got.who != who {
				t.Fatalf("%d has its turn, not %d: %v", got.who, who, got.err)
			}
			c.unlock(got.lock)
		}
		c.empty(l)
	})
}

// Where nothing can be heard, those behind the first attempt learn of its end all the same.
func TestQueueBehindTheFirstAttemptWithoutSubscriptions(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		for _, m := range c.masters {
			m.Crash(fakeredis.Everything)
		}
		first, second := l.waitlist.join(l.set.retry, []string{"a"}), l.waitlist.join(l.set.retry, []string{"a"})
		first.mustBegin(t)
		synctest.Wait()
		if _, due := second.begin(); due {
			t.Error("it asks while another does")
		}
		first.leave()
		synctest.Wait()
		if len(second.wake) == 0 {
			t.Error("it is not woken")
		}
		second.mustBegin(t)
		second.leave()
		c.empty(l)
	})
}

// A holder that died: its lease wakes who waits.
func TestQueueWakesAtTheEndOfTheLease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const lease = 300 * time.Millisecond
		l := c.process(WithRetry(time.Minute, time.Minute))
		holder := c.process(WithLease(lease))
		since := time.Now()
		c.lock(holder, "a")
		holder.Close() // the key is left to its lease
		results := make(chan turned, 1)
		queueUp(t.Context(), l, 0, results, "a")
		c.unlock(c.next(results, time.Second).lock)
		if took := time.Since(since); took < lease || took > lease+shortly {
			t.Errorf("it has the lock after %v, want %v", took, lease)
		}
		c.empty(l)
	})
}

// Closing the locker ends every waiting.
func TestQueueEndsWithTheLocker(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(c.process(), "a")
		results := make(chan turned, 5)
		for i := range 5 {
			queueUp(t.Context(), l, i, results, "a")
		}
		time.Sleep(shortly) // until all that is left is to wait
		since := time.Now()
		l.Close()
		for range 5 {
			if got := c.next(results, shortly); !errors.Is(got.err, ErrClosed) {
				t.Errorf("waiter %d: %v", got.who, got.err)
			}
		}
		if took := time.Since(since); took != 0 {
			t.Errorf("they waited for %v more", took)
		}
		c.empty(l)
		c.unlock(held)
	})
}

// What is said of those who give up: that another holds the lock when it is known, and else no more than is.
func TestQueueTellsWhyItWasInVain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		results := make(chan turned, 1)
		wait := func() error {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), shortly)
			defer cancel()
			queueUp(ctx, l, 0, results, "a")
			got := c.next(results, 2*shortly)
			if got.err == nil {
				t.Fatal("it has the lock")
			}
			if !errors.Is(got.err, ErrNotAcquired) || !errors.Is(got.err, context.DeadlineExceeded) {
				t.Error(got.err)
			}
			return got.err
		}
		held := c.lock(l, "a")
		if err := wait(); !errors.Is(err, ErrHeld) || errors.Is(err, ErrUnavailable) {
			t.Errorf("another held it: %v", err)
		}
		c.unlock(held)

		// Somebody asks and has not been answered.
		for _, m := range c.masters {
			m.Crash(fakeredis.Everything)
		}
		asking := l.waitlist.join(l.set.retry, []string{"a"})
		asking.mustBegin(t)
		if err := wait(); errors.Is(err, ErrHeld) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("no node has answered: %v", err)
		}
		asking.leave()
		for _, m := range c.masters {
			m.Start()
		}
		time.Sleep(5 * time.Second) // until the nodes are found to be back

		// The nodes failed, and then somebody of this process got it.
		first, behind := l.waitlist.join(l.set.retry, []string{"a"}), l.waitlist.join(l.set.retry, []string{"a"})
		first.mustBegin(t)
		first.refused([]string{"a"}, &attemptResult{err: &Error{causes: []error{ErrNotAcquired, ErrUnavailable}}, Result: waiting.Result{Wait: -1}})
		lock, _ := l.core.attempt(t.Context(), l.set, []string{"a"}, waiting.AskAll)
		first.acquired(DefaultLease)
		if err := behind.gaveUp([]string{"a"}, nil); !errors.Is(err, ErrHeld) || errors.Is(err, ErrUnavailable) {
			t.Errorf("another waiter has got it: %v", err)
		}
		behind.leave()
		c.unlock(lock)
		c.empty(l)
	})
}

// An attempt that is cut short, by the caller's context or by Close, knows less than the one before.
func TestQueueKeepsWhatTheLastAttemptFound(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, holder := c.process(), c.process()
		ctx, cancel := context.WithCancel(t.Context())
		for _, end := range []struct {
			how  func()
			want error
		}{{cancel, context.Canceled}, {func() { go l.Close() }, ErrClosed}} {
			held := c.lock(holder, "a")
			results := make(chan turned, 1)
			queueUp(ctx, l, 0, results, "a")
			stalled, calls := make(chan struct{}), c.calls.Load()
			c.stalled.Store(&stalled)
			for c.calls.Load() < calls+3 { // the slow poll
				time.Sleep(time.Millisecond)
			}
			end.how()
			if got := c.next(results, shortly); !errors.Is(got.err, ErrHeld) || !errors.Is(got.err, end.want) {
				t.Errorf("want %q and %q: %v", ErrHeld, end.want, got.err)
			}
			c.stalled.Store(nil)
			close(stalled)
			c.unlock(held)
			ctx = t.Context()
		}
	})
}

// A timer may fire before its time by the clock that counts: a waiter that wakes too early is woken again.
func TestQueueWakesAgainWhoWasWokenTooEarly(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		held := c.lock(c.process(), "a")
		w := l.waitlist.join(l.set.retry, []string{"a"})
		w.mustBegin(t)
		w.refused([]string{"a"}, &attemptResult{Result: waiting.Result{Held: true, Wait: -1}})
		for range 2 {
			if _, due := w.begin(); due {
				t.Fatal("it is to ask at once")
			}
			w.alarm.Stop() // as if it had fired
		}
		if _, due := w.begin(); due {
			t.Fatal("it is to ask at once")
		}
		select {
		case <-w.wake:
		case <-time.After(time.Minute):
			t.Error("nothing wakes it any more")
		}
		w.leave()
		c.unlock(held)
		c.empty(l)
	})
}

// Whoever waits for several names wakes when the one is released that was held, whichever it is.
func TestQueueWakesForEachOfItsNames(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, holder := c.process(WithRetry(time.Minute, time.Minute)), c.process()
		for _, name := range []string{"a", "b", "c"} {
			held := c.lock(holder, name)
			results := make(chan turned, 1)
			queueUp(t.Context(), l, 0, results, "a", "b", "c")
			time.Sleep(shortly) // until all that is left is to wait
			c.unlock(held)
			c.unlock(c.next(results, shortly).lock)
		}
		c.empty(l)
	})
}

// A crowd that gives up at once, in whatever order, holds nobody up: who leaves is not looked for among those who wait.
func TestQueueIsLeftByACrowd(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(time.Minute, time.Minute), WithClock(clock.Monotonic()))
		held := c.lock(c.process(), "a")
		stopwatch := clock.System() // of the world outside the bubble
		leaving := func(n int) (took time.Duration) {
			for range 3 { // the best of them: others use the processor, too
				all := make([]*waiter, n)
				for i := range all {
					all[i] = l.waitlist.join(l.set.retry, []string{"a"})
				}
				began := stopwatch.Now()
				for _, w := range slices.Backward(all) {
					w.leave()
				}
				if once := stopwatch.Now().Sub(began); took == 0 || once < took {
					took = once
				}
				c.empty(l)
			}
			return took
		}
		if few, many := leaving(2_000), leaving(40_000); many > 150*few { // 20 times as many
			t.Errorf("2,000 leave in %v, 40,000 in %v", few, many)
		}
		c.unlock(held)
	})
}

// Nobody waits by another's bounds: when all messages are lost the nodes are polled by those of the most eager of the queue, wherever
// it stands, and by no one's who has left.
func TestQueueWaitsByTheMostEager(t *testing.T) {
	patient, eager := WithRetry(10*time.Millisecond, time.Hour), WithRetry(10*time.Millisecond, 200*time.Millisecond)
	// soon is the longest slow poll of the eager.
	const soon = time.Second + shortly
	for what, scene := range map[string]func(t *testing.T, c *cluster, slow, quick *Locker, results chan turned){
		"the eager one comes later": func(t *testing.T, c *cluster, slow, quick *Locker, results chan turned) {
			queueUp(t.Context(), slow, 0, results, "a")
			time.Sleep(time.Minute)
			queueUp(t.Context(), quick, 1, results, "a")
		},
		"the patient one leaves": func(t *testing.T, c *cluster, slow, quick *Locker, results chan turned) {
			ctx, cancel := context.WithCancel(t.Context())
			queueUp(ctx, slow, 0, results, "a")
			time.Sleep(time.Minute)
			queueUp(t.Context(), quick, 1, results, "a")
			cancel()
			<-results
		},
		"another eager one leaves": func(t *testing.T, c *cluster, slow, quick *Locker, results chan turned) {
			ctx, cancel := context.WithCancel(t.Context())
			queueUp(t.Context(), slow, 0, results, "a")
			queueUp(ctx, quick, 1, results, "a")
			queueUp(t.Context(), quick, 2, results, "a")
			cancel()
			<-results
		},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				slow, results := c.process(patient), make(chan turned, 3)
				c.lock(c.process(), "a")
				scene(t, c, slow, slow.With(eager), results)
				time.Sleep(time.Minute + time.Second) // the holder looks every ten
				for _, m := range c.masters {
					m.Flush() // nobody is told
				}
				c.unlock(c.next(results, soon).lock)
				synctest.Wait()
			})
		})
	}
	t.Run("when none is eager any more", func(t *testing.T) {
		inCluster(t, func(t *testing.T, c *cluster) {
			slow, results := c.process(patient), make(chan turned, 2)
			held := c.lock(c.process(WithMaxHold(24*time.Hour)), "a")
			ctx, cancel := context.WithCancel(t.Context())
			queueUp(ctx, slow.With(eager), 0, results, "a")
			queueUp(t.Context(), slow, 1, results, "a")
			time.Sleep(time.Minute)
			calls := c.calls.Load()
			held.hold.mu.Lock()
			renewals := 3 * int64(time.Minute/(held.hold.set.lease/3))
			held.hold.mu.Unlock()
			time.Sleep(time.Minute)
			if more := c.calls.Load() - calls - renewals; more < 60 {
				t.Errorf("%d calls in a minute while an eager one waits", more)
			}
			cancel()
			<-results
			time.Sleep(time.Minute)
			calls = c.calls.Load()
			time.Sleep(time.Minute)
			if more := c.calls.Load() - calls - renewals; more > 12 { // leases end
				t.Errorf("%d calls in a minute by one that is patient", more)
			}
			c.unlock(held)
			c.unlock(c.next(results, shortly).lock)
		})
	})
}

// The longest bounds that there may be do no harm.
func TestQueueWithTheLongestBounds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process(WithRetry(maxRetry, maxRetry), WithMaxHold(maxMaxHold))
		held, results := c.lock(l, "a"), make(chan turned, 1)
		queueUp(t.Context(), l, 0, results, "a")
		if held.Deadline().IsZero() {
			t.Error("it has no deadline")
		}
		c.unlock(held)
		c.unlock(c.next(results, shortly).lock)
		c.empty(l)

		for _, m := range c.masters {
			m.Crash(fakeredis.Everything)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		c.empty(l)
	})
}

// A queue is used again only when no subscriber knows it: messages of its old names would wake the new ones.
func TestQueueWithSubscribersIsNotUsedAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.unlock(c.lock(l, "a"))
		if l.waitlist.free == nil {
			t.Error("a queue that nobody waited in is thrown away")
		}
		held := c.lock(c.process(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan turned, 1)
		queueUp(ctx, l, 0, left, "a")
		used := l.waitlist.queues[newNameSet([]string{"a"})]
		cancel()
		<-left
		if l.waitlist.free == used {
			t.Error("a queue that has subscribers is to be used again")
		}
		c.unlock(held)
		c.empty(l)
	})
}

// Who gives up is told what all nodes said, rather than what the probe node did, unless nodes have failed since.
func TestQueueTellsWhatAllNodesSaid(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, names := c.process(), []string{"a"}
		w := l.waitlist.join(l.set.retry, names)
		defer w.leave()
		var want *Error
		for _, attempt := range []struct {
			approach waiting.Approach
			held     bool
			told     bool
		}{
			{waiting.ProbeFirst, true, true}, // there is nothing else to tell
			{waiting.AskAll, true, true},
			{waiting.ProbeFirst, true, false},
			{waiting.ProbeFirst, false, true},
			{waiting.AskAll, true, true},
		} {
			r := &attemptResult{Result: waiting.Result{Held: attempt.held, Wait: -1}, err: &Error{}, approach: attempt.approach}
			if attempt.told {
				want = r.err
			}
			w.refused(names, r)
			if w.lastError() != want {
				t.Errorf("after %+v another error is told", attempt)
			}
		}
	})
}
