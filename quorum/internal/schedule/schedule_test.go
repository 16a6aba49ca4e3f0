package schedule_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
)

const ms = time.Millisecond

// calls records what a schedule handles.
type calls struct {
	schedule *schedule.Schedule[string]
	clock    *fakeclock.Clock
	handled  []string // owners with the time; "-" after each call of Due that had entries
	again    map[string]clock.Instant
}

func newCalls(t *testing.T) *calls {
	c := &calls{clock: fakeclock.New(), again: map[string]clock.Instant{}}
	c.schedule = schedule.New(c.clock, c.due)
	t.Cleanup(func() { c.schedule.Close() })
	return c
}

// due handles each entry once, or again at the instant that c.again has.
func (c *calls) due(now clock.Instant, entries []*schedule.Entry[string]) (after func()) {
	for _, e := range entries {
		c.handled = append(c.handled, fmt.Sprint(e.Owner, " ", time.Duration(now)))
		if at, found := c.again[e.Owner]; found {
			delete(c.again, e.Owner)
			e.At = at
		} else {
			e.Over = true
		}
	}
	return func() {
		if len(entries) > 0 {
			c.handled = append(c.handled, "-")
		}
	}
}

// add adds an entry that is due after d.
func (c *calls) add(t *testing.T, owner string, d, early time.Duration) *schedule.Entry[string] {
	t.Helper()
	e := &schedule.Entry[string]{Owner: owner, Early: early}
	testkit.Require(t, c.schedule.Add(e, func() bool { e.At = c.clock.Now().Add(d); return true }), "the schedule is closed")
	return e
}

func (c *calls) want(t *testing.T, want ...string) {
	t.Helper()
	testkit.Check(t, slices.Equal(c.handled, want), "handled: %q, want %q", c.handled, want)
	c.handled = nil
}

// Entries are handled when they are due, in any order of adding, until they are over.
func TestEntriesAreHandledWhenTheyAreDue(t *testing.T) {
	c := newCalls(t)
	c.add(t, "b", 20*ms, 0)
	c.add(t, "c", 30*ms, 0)
	c.add(t, "a", 10*ms, 0)
	c.again["a"] = clock.Instant(25 * ms)
	c.clock.Advance(10*ms - 1)
	c.want(t)
	c.clock.Advance(1)
	c.want(t, "a 10ms", "-")
	c.clock.Advance(time.Minute)
	c.want(t, "b 20ms", "-", "a 25ms", "-", "c 30ms", "-")
	testkit.Equal(t, c.schedule.Len(), 0, "entries that are left")
}

// An entry that may be handled early is handled with one that is due, and not alone.
func TestEntriesThatAreHandledTogether(t *testing.T) {
	c := newCalls(t)
	c.add(t, "a", 10*ms, 0)
	c.add(t, "near", 12*ms, 3*ms)
	c.add(t, "far", 13*ms, 3*ms)
	c.clock.Advance(20 * ms)
	c.want(t, "a 10ms", "near 10ms", "-", "far 13ms", "-")
}

// More entries than are handled at a time are handled in one go. In between, other calls of the schedule may come.
func TestManyEntriesAreHandledTogether(t *testing.T) {
	c := newCalls(t)
	const many = 600
	for i := range many {
		c.add(t, fmt.Sprint(i), 10*ms, 0)
	}
	c.clock.Advance(10 * ms)
	calls := len(c.handled)
	handled := len(slices.DeleteFunc(c.handled, func(s string) bool { return s == "-" }))
	testkit.Check(t, handled == many && calls-handled == 3, "%d of %d were handled, in %d calls", handled, many, calls-handled)
}

// An entry that was removed is not handled, and may be added again.
func TestRemove(t *testing.T) {
	c := newCalls(t)
	a, b := c.add(t, "a", 10*ms, 0), c.add(t, "b", 10*ms, 0)
	c.schedule.Remove(a)
	c.schedule.Remove(a)
	c.clock.Advance(10 * ms)
	c.want(t, "b 10ms", "-")
	c.schedule.Remove(b)
	a.At = clock.Instant(time.Minute) // not due, or it might be over before it is counted
	testkit.Check(t, c.schedule.Add(a, func() bool { return true }), "the schedule is closed")
	testkit.Equal(t, c.schedule.Len(), 1, "entries")
}

// To hasten an entry makes it due earlier, never later, and adds none that has been removed.
func TestHasten(t *testing.T) {
	c := newCalls(t)
	a, b := c.add(t, "a", 10*ms, 0), c.add(t, "b", 20*ms, 0)
	c.schedule.Hasten(a, clock.Instant(time.Minute))
	c.schedule.Hasten(b, clock.Instant(5*ms))
	c.clock.Advance(5 * ms)
	c.want(t, "b 5ms", "-")
	removed := c.add(t, "removed", time.Second, 0)
	c.schedule.Remove(removed)
	c.schedule.Hasten(removed, clock.Instant(7*ms))
	testkit.Check(t, removed.At == clock.Instant(time.Second+5*ms), "one that was removed is due after %v", time.Duration(removed.At))
	c.clock.Advance(time.Second)
	c.want(t, "a 10ms", "-")
}

// An entry that is not ready is not added, nor any to a schedule that is closed. Close returns the
// owners, and nothing is handled after it.
func TestClose(t *testing.T) {
	c := newCalls(t)
	e := &schedule.Entry[string]{Owner: "not ready"}
	testkit.Check(t, !c.schedule.Add(e, func() bool { return false }) && c.schedule.Len() == 0, "an entry that is not ready was added")
	a := c.add(t, "a", 10*ms, 0)
	c.add(t, "b", 10*ms, 0)
	left := c.schedule.Close()
	testkit.Check(t, slices.Equal(left, []string{"a", "b"}), "left: %q", left)
	testkit.Equal(t, len(c.schedule.Close()), 0, "what is left after the first Close")
	c.schedule.Remove(a)
	c.schedule.Hasten(a, 0)
	isAdded := c.schedule.Add(a, func() bool { t.Error("ready was called"); return true })
	testkit.Check(t, !isAdded && c.schedule.Len() == 0, "an entry was added")
	c.clock.Advance(time.Minute)
	c.want(t)
}

// stoppedTimers is a clock whose timers count time that the machine was not suspended for: now may
// be ahead of them.
type stoppedTimers struct {
	*fakeclock.Clock
	suspended time.Duration
}

func (c *stoppedTimers) Now() clock.Instant { return c.Clock.Now().Add(c.suspended) }

// After a suspend, which timers do not count, what is due is handled within a second.
func TestASuspendIsNoticedWithinASecond(t *testing.T) {
	suspends := &stoppedTimers{Clock: fakeclock.New()}
	handled := 0
	s := schedule.New(suspends, func(_ clock.Instant, entries []*schedule.Entry[int]) func() {
		for _, e := range entries {
			handled++
			e.Over = true
		}
		return func() {}
	})
	defer s.Close()
	s.Add(&schedule.Entry[int]{At: clock.Instant(time.Hour)}, func() bool { return true })
	suspends.Advance(10 * time.Second)
	testkit.Check(t, handled == 0, "it was handled before it was due")
	suspends.suspended = time.Hour
	suspends.Advance(time.Second)
	testkit.Check(t, handled == 1, "it was handled %d times within a second", handled)
}

// When Remove returns, no entry is being handled.
func TestRemoveWaitsForDue(t *testing.T) {
	begun, done := make(chan struct{}), false
	s := schedule.New(clock.System(), func(_ clock.Instant, entries []*schedule.Entry[int]) func() {
		if len(entries) > 0 {
			close(begun)
			for range 1000 {
				runtime.Gosched()
			}
			done, entries[0].Over = true, true
		}
		return func() {}
	})
	defer s.Close()
	e := &schedule.Entry[int]{At: clock.Never}
	s.Add(e, func() bool { return true })
	<-begun
	s.Remove(e)
	testkit.Check(t, done, "Remove has not waited")
}
