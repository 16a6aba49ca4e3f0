package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
)

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
