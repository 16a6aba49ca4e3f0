package quorum

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func (c *cluster) read(l *Locker) *Lock {
	c.t.Helper()
	return c.got(l.RWLock("a").RLock(c.t.Context()))
}

func (c *cluster) wantNone(from <-chan lockResult, what string) {
	c.t.Helper()
	synctest.Wait()
	select {
	case got := <-from:
		c.t.Fatalf("%s: %v", what, got.err)
	default:
	}
}

// A downgrade may come while a writer's call is about to enter the lock: the call is refused, too.
func TestADowngradeDuringReentry(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		writer := c.lock(l, "a")
		lookedUp := 0
		ctx := watchedContext{writer.Context(), func(_ string, key any) {
			if _, isLock := key.(lockKey); isLock {
				if lookedUp++; lookedUp == 2 {
					c.must(writer.Downgrade(context.Background()))
				}
			}
		}}
		wantError(t, errorOf(l.Lock(ctx, "a")), ErrInvalid)
		testkit.Check(t, writer.Shared() && writer.Depth() == 1, "a writer's call within a reader's lock: shared %v, depth %d", writer.Shared(), writer.Depth())
		c.unlock(writer)
	})
}

// A probe reserves on one node. The reservations of the attempt before it, on the others, end with it.
func TestAWriterThatGivesUpInAProbeKeepsNoReadersBack(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		old, writers := c.read(c.process()), make(chan lockResult, 1)
		ctx, cancel := context.WithCancel(t.Context())
		startWaiter(ctx, c.process(), 0, writers, "a")
		probes := func(script string) {
			if script == "acquire" {
				cancel()
			}
		}
		c.on(probes)
		c.command(0, "PUBLISH", scripts.Channel("a"), "0") // too few for a release: the writer probes
		c.next(writers, shortly)
		synctest.Wait()
		c.unlock(c.read(c.process(WithWait(shortly))))
		c.unlock(old)
	})
}
