package quorum

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/scripts"
)

// rivalHas has another owner hold the name "a" on some masters.
func (c *cluster) rivalHas(l *Locker, masters ...int) {
	c.t.Helper()
	for _, i := range masters {
		call := scripts.Acquire(scripts.AcquireArgs{Names: []scripts.Name{scripts.NewName("a")}, Owner: scripts.OwnerOf("rival:1"), Level: 1,
			Lease: l.set.terms.Millis, List: l.core.Roster.List(), Seed: 1})
		if r := inside.Of(l.core.Nodes[i]).Pipe("a").Do(c.t.Context(), call); r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
}

// An attempt that failed returns when the nodes that granted it have confirmed the release.
func TestUndoWaitsForThoseThatGranted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		c.rivalHas(l, 0, 1)
		const slow = 300 * time.Millisecond
		for i := range 2 {
			c.before(i, func() { time.Sleep(5 * time.Millisecond) }) // after the grant
		}
		calls := 0
		c.before(2, func() {
			if calls++; calls == 2 {
				time.Sleep(slow)
			}
		})
		began := time.Now()
		if _, err := l.TryLock(t.Context(), "a"); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		if took := time.Since(began); took < slow {
			t.Errorf("it returned after %v, before its grant was taken back", took)
		}
		if owner := c.owners(l)[2]; owner != "" {
			t.Errorf("the third master still has %s", owner)
		}
	})
}

// Where too many nodes are known to be down, the others are not asked: they would grant what must be released again.
func TestHopelessAttemptAsksNobody(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		crash(c.masters[:2], fakeredis.Everything)
		if _, err := l.TryLock(t.Context(), "a"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		synctest.Wait()
		calls := c.calls.Load()
		if _, err := l.TryLock(t.Context(), "a"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		synctest.Wait()
		if asked := c.calls.Load() - calls; asked != 0 {
			t.Errorf("%d calls", asked)
		}
	})
}
