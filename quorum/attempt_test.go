package quorum

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// rivalHas has another owner hold the name "a" on some masters.
func (c *cluster) rivalHas(l *Locker, masters ...int) {
	c.t.Helper()
	for _, i := range masters {
		call := scripts.Acquire(scripts.AcquireArgs{Names: []scripts.Name{scripts.NewName("a")}, Owner: scripts.OwnerOf("rival:1"), Level: 1,
			Lease: l.set.leaseMillis, List: l.core.roster.List(), Seed: 1})
		if r := inside.Of(l.core.nodes[i]).Pipe("a").Do(c.t.Context(), call); r.Err != nil {
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

// countingClock is a clock by which a second passes with every look at it.
type countingClock struct {
	clock.Clock
	mu  sync.Mutex
	now clock.Instant
}

func (c *countingClock) Now() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}

// A grant counts from a look at the clock before anything was sent, however late that was.
func TestTheClockIsReadBeforeAnythingIsSent(t *testing.T) {
	for _, approach := range []waiting.Approach{waiting.AskAll, waiting.ProbeFirst} {
		t.Run(fmt.Sprint("approach ", approach), func(t *testing.T) {
			a, _ := heldHold(t, time.Hour)
			c := a.hold.core
			counting := &countingClock{Clock: c.clock, now: c.clock.Now()}
			c.clock = counting
			first := counting.now.Add(time.Second)
			a = newAttempt(c, a.hold.set, []string{"b"}, nil)
			a.ask(approach)
			a.hold.mu.Lock()
			defer a.hold.mu.Unlock()
			if a.hold.lease.BegunAt() != first {
				t.Errorf("grants count from %v after the first look at the clock", a.hold.lease.BegunAt().Sub(first))
			}
		})
	}
}
