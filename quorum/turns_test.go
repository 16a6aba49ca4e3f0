package quorum

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// deafSubscriber subscribes to a name's channel on every master, and never asks for the lock.
func (c *cluster) deafSubscriber(name string) {
	c.t.Helper()
	for i := range c.masters {
		ours, _ := c.dial(i)
		conn := redis.PubSubConn{Conn: redis.NewConn(ours, 0, 5*time.Second)}
		c.t.Cleanup(func() { conn.Close() })
		c.must(conn.Subscribe(scripts.Channel(name)))
		go func() {
			for conn.Conn.Err() == nil {
				conn.Receive()
			}
		}()
	}
	synctest.Wait()
}

// Subscribers that never ask delay a caller that asks again at once by a step and one more for each, TryLock and a
// later call not at all. Without subscribers there is no delay.
func TestTurnsNobodyTakes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		lockTakes := func(what string, want time.Duration) {
			t.Helper()
			start := time.Now()
			c.unlock(c.lock(l, "a"))
			testkit.Equal(t, time.Since(start), want, what)
		}
		c.unlock(c.lock(l, "a"))
		lockTakes("no subscriber", 0)

		c.deafSubscriber("a")
		c.deafSubscriber("a")
		c.unlock(c.lock(l, "a"))
		c.unlock(c.got(l.TryLock(t.Context(), "a")))
		lockTakes("two subscribers", 3*waiting.MinStep)

		time.Sleep(waiting.MinStep + 1)
		lockTakes("a step later", 0)
		c.unlock(c.lock(l, "b"))
		lockTakes("two subscribers, again", 3*waiting.MinStep)
	})
}

// A call that comes while its process holds the lock again, within a step of the release before, hears the next one.
func TestTurnsOfACallThatComesWhileItsProcessHolds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(WithRetry(time.Minute, time.Minute)), c.process()
		c.deafSubscriber("a")
		c.unlock(c.lock(l, "a"))
		got := make(chan lockResult, 2)
		startWaiter(t.Context(), l, 0, got, "a")
		c.unlock(c.got(other.TryLock(t.Context(), "a")))
		holds := c.next(got, waiting.MinStep/2) // it has heard that release
		startWaiter(t.Context(), l, 1, got, "a")
		time.Sleep(shortly)
		c.unlock(holds.lock)
		c.unlock(c.nextLock(got, shortly))
	})
}

// Another name that has the same place in the history does not make a process wait for itself.
func TestTurnsOfNamesThatShareAPlace(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(), ""
		for i := 0; other == ""; i++ {
			if name := fmt.Sprint(i); scripts.Hash(name)%256 == scripts.Hash("a")%256 {
				other = name
			}
		}
		c.deafSubscriber("a")
		c.deafSubscriber(other)
		c.unlock(c.lock(l, "a"))
		for range 3 {
			start := time.Now()
			lock := c.lock(l, "a")
			wantTook(t, start, 2*waiting.MinStep, 2*waiting.MinStep)
			synctest.Wait() // the process's own subscription has ended: a release that came before that would count it
			c.unlock(c.lock(l, other))
			synctest.Wait()
			c.unlock(lock)
		}
	})
}

// A call that ends while it lets others go first says that the lock is held.
func TestTurnsErrorOfACallThatGivesUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.deafSubscriber("a")
		c.unlock(c.lock(l, "a"))
		ctx, cancel := context.WithTimeout(t.Context(), waiting.MinStep/2)
		defer cancel()
		wantError(t, errorOf(l.Lock(ctx, "a")), ErrHeld, context.DeadlineExceeded)
		c.wantNoQueues(l)
	})
}
