package quorum

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// mustBegin begins an attempt of the call.
func mustBegin(t *testing.T, p *queue.Place) {
	t.Helper()
	_, due := p.Next(t.Context())
	testkit.Require(t, due, "no attempt is due")
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
		testkit.Equal(t, queuesOf(l), 3, "queues for three sets of names")
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

// The error of a call that gives up reports another owner only if an attempt has found one.
func TestQueueErrorOfACallThatGivesUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		results := make(chan lockResult, 1)

		// An attempt is under way without an answer.
		crash(c.Masters, fakeredis.Everything)
		asking := l.joins()
		mustBegin(t, asking)
		ctx := testkit.Within(t, shortly)
		startWaiter(ctx, l, 0, results, "a")
		wantError(t, c.next(results, 2*shortly).err, not{ErrHeld}, ErrUnavailable, ErrNotAcquired, context.DeadlineExceeded)
		asking.Leave()
		startAll(c, 5*time.Second)

		// The nodes failed, and then another waiter of this process acquired the lock.
		first, behind := l.joins(), l.joins()
		mustBegin(t, first)
		unavailable := &Error{causes: []error{ErrNotAcquired, ErrUnavailable}}
		first.Refused(waiting.Result{Wait: -1}, waiting.AskAll, unavailable)
		one, _ := l.attempts(t.Context(), waiting.AskAll, "a")
		first.Acquired(DefaultLease, false)
		// another waiter has acquired the lock
		wantError(t, one.gaveUp(t.Context(), behind.LastError()), ErrHeld, not{ErrUnavailable})
		behind.Leave()
		c.unlock(one.lock)
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
			w.Refused(waiting.Result{Held: attempt.held, Wait: -1}, attempt.approach, said)
			testkit.Check(t, w.LastError() == want, "after %+v another error is told", attempt)
		}
	})
}

// A node that is closed for good, one of three, does not end the waiting.
func TestQueueGoesOnWithoutAClosedNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, held, results := c.process(), c.lock(c.process(), "a"), make(chan lockResult, 1)
		l.engine.Nodes[0].Close()
		startWaiter(t.Context(), l, 0, results, "a")
		time.Sleep(time.Second)
		c.wantNone(results, "during the hold")
		c.unlock(held)
		c.unlock(c.nextLock(results, aPoll))
	})
}
