package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// The clock is read last: whatever takes longer than the lease in a commit, the attempt is no lock then, and is undone.
func TestCommitReadsTheClockLast(t *testing.T) {
	ticking := fakeclock.New()
	inCluster(t, ticking, func(t *testing.T, c *cluster) {
		a := c.won(t)
		a.hold.holder().onBegin = func() { ticking.Advance(a.hold.terms.Lease) }
		if a.commit(t.Context()) {
			t.Error("it is a held lock, and its lease is over")
		}
		if o := a.undo(t.Context(), waiting.AskAll); o.Cause != lease.TooLate {
			t.Errorf("%+v", o)
		}
		if c.Held() > 0 {
			t.Error("it is in the schedule")
		}
		c.wantNoOwners(t)
	})
}

// A context that has ended makes no lock, although enough nodes have granted it.
func TestNoCommitForAContextThatHasEnded(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		a := c.won(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if a.commit(ctx) {
			t.Error("it is a held lock")
		}
		a.undo(t.Context(), waiting.AskAll)
		c.wantNoOwners(t)
	})
}

// An attempt that is won while the engine closes is undone, and not left to a schedule that no longer renews.
func TestNoCommitAfterClose(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, c *cluster) {
		a := c.won(t)
		c.Close()
		if a.commit(t.Context()) {
			t.Error("it is a held lock of an engine that is closed")
		}
		if o := a.undo(t.Context(), waiting.AskAll); !o.Closed {
			t.Errorf("%+v", o)
		}
		c.wantNoOwners(t)
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
			e := a.hold.engine
			counting := &countingClock{Clock: e.Clock, now: e.Clock.Now()}
			e.Clock = counting
			first := counting.now.Add(time.Second)
			a = newAttempt(e.newHold(a.hold.terms, "b"), -1)
			a.ask(approach)
			a.hold.mu.Lock()
			defer a.hold.mu.Unlock()
			if a.hold.lease.BegunAt() != first {
				t.Errorf("grants count from %v after the first look at the clock", a.hold.lease.BegunAt().Sub(first))
			}
		})
	}
}
