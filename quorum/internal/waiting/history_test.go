package waiting

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// What a process remembers of its releases leaves out its own subscriptions.
func TestHistoryLeavesOutTheProcessItself(t *testing.T) {
	const names, others, elsewhere = 7, 7 + 256, 8 // others share a place with names
	at := func(d time.Duration) clock.Instant { return clock.Instant(time.Hour + d) }
	present := Moment{Now: at(0), Step: step}
	for _, c := range []struct {
		name string
		do   func(h *History)
		want int
	}{
		{"nothing", func(h *History) {}, 0},
		{"a release", func(h *History) { h.Released(names, 2, at(0)) }, 2},
		{"of other names", func(h *History) { h.Released(elsewhere, 2, at(0)) }, 0},
		{"of names that share its place", func(h *History) { h.Released(others, 2, at(0)) }, 0},
		{"driven out", func(h *History) { h.Released(names, 2, at(0)); h.Released(others, 2, at(0)) }, 0},
		{"others are asked about", func(h *History) {
			h.Released(names, 2, at(0))
			h.JustReleased(others, present)
		}, 2},
		{"a step ago", func(h *History) { h.Released(names, 2, at(-step)) }, 2},
		{"long ago", func(h *History) { h.Released(names, 2, at(-step-1)) }, 0},
		{"the subscriptions may not have ended", func(h *History) {
			h.Unsubscribed(names, 1, at(-step))
			h.Released(names, 2, at(0))
		}, 1},
		{"the subscriptions have ended", func(h *History) {
			h.Unsubscribed(names, 1, at(-step-1))
			h.Released(names, 2, at(0))
		}, 2},
		{"the subscriptions end after it", func(h *History) {
			h.Released(names, 2, at(-step/2))
			h.Unsubscribed(names, 1, at(0))
		}, 1},
	} {
		var h History
		c.do(&h)
		got, _ := h.JustReleased(names, present)
		testkit.Check(t, got == c.want, "%s: %d others, want %d", c.name, got, c.want)
	}
}

// A first attempt probes for 100 ms after the process's subscriptions have ended.
func TestFirstApproach(t *testing.T) {
	const names = 0 // a hash like any other
	var h History
	ended := clock.Instant(time.Second)
	testkit.Equal(t, h.FirstApproach(names, 0), Alone, "at first: approach")
	h.Unsubscribed(names, 0, ended)
	for after, want := range map[time.Duration]Approach{0: ProbeFirst, 100*ms - 1: ProbeFirst, 100 * ms: Alone} {
		testkit.Equal(t, h.FirstApproach(names, ended.Add(after)), want, after)
	}
	testkit.Equal(t, h.FirstApproach(names+1, ended), Alone, "other names: approach")
}

// The first attempt takes the times of its answers, and then one in 20 ms.
func TestSamples(t *testing.T) {
	r, from := NewRTT(3), clock.Instant(0)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {20*ms - 1, false}, {20 * ms, true}, {39 * ms, false}, {40 * ms, true}} {
		testkit.Equal(t, r.Samples(from.Add(c.after)), c.want, c.after)
	}
}

// One answer that comes late counts for an eighth.
func TestRTTIsAMean(t *testing.T) {
	p := NewRTT(3)
	for node := range 3 {
		p.Observe(node, 100*time.Microsecond)
	}
	p.Observe(1, 3*time.Millisecond)
	got := p.Mean(1)
	testkit.Check(t, got <= time.Millisecond/2, "one late answer has made the mean %v", got)
}

// A step follows the quorum, within its bounds: the slowest nodes do not count.
func TestStepIsThreeRoundTripsOfAQuorum(t *testing.T) {
	for _, of := range []struct {
		means [3]time.Duration
		want  time.Duration
	}{
		{[3]time.Duration{}, MinStep},
		{[3]time.Duration{time.Microsecond, time.Microsecond, time.Second}, MinStep},
		{[3]time.Duration{2 * time.Millisecond, time.Second, time.Millisecond}, 6 * time.Millisecond},
		{[3]time.Duration{time.Second, time.Second, time.Second}, MaxStep},
	} {
		p := NewRTT(3)
		for node, d := range of.means {
			if d > 0 {
				p.Observe(node, d)
			}
		}
		testkit.Equal(t, p.Step(quorate.Majority(3)), of.want, of.means)
	}
}

// The slot that was released last is taken once.
func TestHistoryOfSlots(t *testing.T) {
	const names, others = 7, 7 + 256 // they share a place
	var h History
	testkit.Equal(t, h.TakeSlot(names), -1, "a slot of none")
	h.ReleasedSlot(names, 3)
	h.ReleasedSlot(names, 0)
	h.Released(names, 2, clock.Instant(time.Hour))
	testkit.Equal(t, h.TakeSlot(others), -1, "a slot of another semaphore")
	testkit.Equal(t, h.TakeSlot(names), 0, "the slot that was released last")
	testkit.Equal(t, h.TakeSlot(names), -1, "a slot that was taken")
	h.ReleasedSlot(names, 3)
	h.ReleasedSlot(others, 4)
	testkit.Equal(t, h.TakeSlot(names), -1, "a slot that was driven out")
}
