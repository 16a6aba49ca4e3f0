package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// deafSubscriber subscribes to a name's channel on every master, and never asks for the lock.
func (c *cluster) deafSubscriber(name string) {
	c.t.Helper()
	for i := range c.Masters {
		ours := c.dial(i)
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
