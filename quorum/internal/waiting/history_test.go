package waiting

import (
	"math/rand/v2"
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

// many is how many queues a process has that waits for very many names. Each polls after 12.5 to 25 s.
const many = 50_000

const firstOfMany, lastOfMany = many * pollGap / 2, many * pollGap

// among sets how many queues the process has.
func among(queues int) event { return func(s *scenario) { s.queues = queues } }

// Of many queues, each polls seldom. What a call or a message causes is as prompt as otherwise.
func TestManyQueues(t *testing.T) {
	seldom := in(firstOfMany, lastOfMany)
	for _, c := range []struct {
		name   string
		events []event
	}{
		{"few queues", []event{among(int(lastPoll / pollGap)), listening(0), polls}},
		{"fewer queues with shorter bounds", []event{settings(Retry{ms, 10 * ms}), among(1000), listening(0),
			in(1000*pollGap/2, 1000*pollGap)}},
		{"a poll", []event{among(many), listening(0), seldom, as(AskAll)}},
		{"a poll that the end of the lease would hasten",
			[]event{among(many), listening(0), refused(AskAll, with(heldBy(0), left(30*ms))), seldom}},
		{"a poll after an acquisition",
			[]event{among(many), joins(usual), listening(0), messages(0, 1), acquires(30 * ms), seldom}},
		{"a retry time", []event{among(many), refused(AskAll, heldBy(0)), seldom}},
		{"a retry time while nodes are unavailable",
			[]event{among(many), listening(0), refused(AskAll, with(heldBy(0), unavailable)), seldom}},
		{"the loss of the subscriptions", []event{among(many), listening(0), unsubscribed(0), unsubscribed(1), seldom}},
		{"subscriptions that come again",
			[]event{among(many), listening(0), unsubscribed(0), unsubscribed(1), subscribed(0, 1), in(1, lastOfMany)}},
		{"subscriptions that come again before an attempt", []event{among(many), listening(0), unsubscribed(0), unsubscribed(1),
			messages(2), in(1, 4*step), stays(subscribed(0, 1))}},
		{"what follows a refusal by the probe node", []event{among(many), listening(0), refused(ProbeFirst, heldBy(0)), seldom}},
		{"split votes that go on",
			[]event{among(many), listening(7), times(40, refused(AskAll, with(heldBy(7), votes(1)))),
				in(firstOfMany, lastOfMany+step)}},

		{"a first attempt", []event{among(many), at(0, AskAll)}},
		{"the first subscriptions", []event{among(many), refused(AskAll, heldBy(0)), subscribed(0, 1), at(0, ProbeFirst)}},
		{"a release", []event{among(many), listening(0), messages(0, 1), at(0, AskAll)}},
		{"a release behind others", []event{among(many), listening(3), messages(0, 1), at(3, ProbeFirst)}},
		{"another message", []event{among(many), listening(0), messages(0), in(1, 4*step), as(ProbeFirst)}},
		{"a split vote", []event{among(many), listening(0), refused(AskAll, with(heldBy(0), votes(1))),
			in(step/2, step/2+2*step)}},
		{"many that have gone", []event{among(many), listening(0), among(1), refused(AskAll, heldBy(0)), polls}},
	} {
		t.Run(c.name, func(t *testing.T) { newScenario(t, 3, 2).play(c.events) })
	}
}

// A process with any number of queues polls at most a fixed number of times in a second.
func TestPollsOfManyQueuesAreBounded(t *testing.T) {
	const most = float64(time.Second) / (0.75 * float64(pollGap)) // a queue polls after three quarters of the longest time
	for _, queues := range []int{100, 3000, 30_000} {
		got := pollsPerSecond(t, queues)
		t.Logf("%d queues: %.0f polls per second", queues, got)
		testkit.Check(t, got <= 1.1*most, "%d queues poll %.0f times per second, want at most %.0f", queues, got, most)
		if usually := float64(queues) / (0.75 * lastPoll.Seconds()); got < 0.9*min(most, usually) {
			t.Errorf("%d queues poll %.0f times per second, want at least %.0f", queues, got, min(most, usually))
		}
	}
}

// pollsPerSecond lets queues poll for names that others hold. None has to do with another.
func pollsPerSecond(t *testing.T, queues int) float64 {
	polls, rng := 0, rand.New(rand.NewPCG(1, 2))
	longest := max(lastPoll, time.Duration(queues)*pollGap)
	from, to := clock.Instant(longest), clock.Instant(5*longest)
	for range queues {
		q, w, now := new(Queue), new(Waiter), clock.Instant(0)
		at := func() Moment { return Moment{Now: now, Step: step, Queues: queues} }
		q.Init(quorate.Majority(3), AskAll, func() *rand.Rand { return rng })
		q.Join(w, usual, at())
		for node := range 3 {
			q.Subscribed(node, at())
		}
		for now.Before(to) {
			if !now.Before(from) {
				polls++
			}
			_, ready := q.Begin(w, at())
			testkit.Require(t, ready, "an attempt is not due at its time")
			q.Refused(with(heldBy(0), left(20*time.Second)), at())
			_, now, _ = q.Next()
		}
	}
	return float64(polls) / to.Sub(from).Seconds()
}
