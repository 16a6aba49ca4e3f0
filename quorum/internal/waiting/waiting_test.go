package waiting

import (
	"cmp"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

const (
	ms   = time.Millisecond
	step = 2 * ms // in these tests
	// firstPoll and lastPoll bound the poll while the subscriptions stand: 2.5 to 5 times the
	// longer retry bound.
	firstPoll, lastPoll = 500 * ms, 1000 * ms
)

var usual = Retry{10 * ms, 200 * ms}

// scenario is a queue with one waiter, in simulated time.
type scenario struct {
	Queue
	t      *testing.T
	now    clock.Instant
	queues int // of the process
	waiter *Waiter
}

func newScenario(t *testing.T, nodes, quorum int) *scenario {
	s := &scenario{t: t, now: clock.Instant(time.Hour), waiter: new(Waiter)}
	s.Init(quorate.Rule{N: nodes, Need: quorum}, AskAll, func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) })
	s.Join(s.waiter, usual, s.at())
	return s
}

func (s *scenario) at() Moment { return Moment{Now: s.now, Step: step, Queues: s.queues} }

// begin begins an attempt, even before it is due.
func begin(s *scenario) {
	s.t.Helper()
	head, _, ok := s.Next()
	if !ok {
		s.t.Fatal("no attempt is to come")
	}
	if s.Queue.next > s.now {
		s.Queue.next = s.now
	}
	if _, due := s.Begin(head, s.at()); !due {
		s.t.Fatal("the attempt has not begun")
	}
}

// event is a step of a scenario: it does something to the queue, or checks its state.
type event func(s *scenario)

func subscribed(nodes ...int) event {
	return func(s *scenario) {
		for _, i := range nodes {
			s.Subscribed(i, s.at())
		}
	}
}

func unsubscribed(node int) event { return func(s *scenario) { s.Unsubscribed(node, s.at()) } }

func messages(nodes ...int) event {
	return func(s *scenario) {
		for _, i := range nodes {
			s.Message(i, s.at())
		}
	}
}

// ends ends the attempt under way.
func ends(r Result) event { return func(s *scenario) { s.Refused(r, s.at()) } }

// refused is an attempt of the given kind from beginning to end.
func refused(approach Approach, r Result) event {
	return func(s *scenario) {
		begin(s)
		s.approach = approach
		s.Refused(r, s.at())
	}
}

// heldBy is the result of an attempt that all nodes refused, while that many other processes
// subscribed.
func heldBy(others int) Result { return Result{Held: true, Wait: -1, Listeners: others + 1} }

func with(r Result, changes ...func(*Result)) Result {
	for _, change := range changes {
		change(&r)
	}
	return r
}

func votes(n int) func(*Result)          { return func(r *Result) { r.Votes = n } }
func left(d time.Duration) func(*Result) { return func(r *Result) { r.Wait = d } }
func unavailable(r *Result)              { r.Held = false }
func byReaders(r *Result)                { r.Readers = true }
func passes(d time.Duration) event       { return func(s *scenario) { s.now = s.now.Add(d) } }

// times plays the events that often.
func times(n int, events ...event) event {
	return func(s *scenario) {
		s.t.Helper()
		for range n {
			s.play(events)
		}
	}
}

// joins adds another waiter at the end.
func joins(retry Retry) event { return func(s *scenario) { s.Join(new(Waiter), retry, s.at()) } }

var longRetry = Retry{10 * ms, time.Hour}

// settings gives the waiter other retry bounds.
func settings(retry Retry) event {
	return func(s *scenario) {
		s.Leave(s.waiter)
		s.Join(s.waiter, retry, s.at())
	}
}

// yields makes the first attempt follow the other processes' attempts.
func yields(others int) event { return func(s *scenario) { s.Yield(others, s.at()) } }

// acquires is an attempt of the head that acquires the lock, for that lease.
func acquires(lease time.Duration) event {
	return func(s *scenario) {
		begin(s)
		s.Acquired(lease, s.at())
	}
}

// acquired ends the attempt under way: it has acquired the lock.
func acquired(s *scenario) { s.Acquired(time.Minute, s.at()) }

func hasten(s *scenario) { s.Hasten(s.at()) }
func share(s *scenario)  { s.Share() }

// reserves begins an attempt, which keeps readers back or not, and asks all nodes if it does.
func reserves(want bool) event {
	return func(s *scenario) {
		s.t.Helper()
		head, at, _ := s.Next()
		s.now = max(s.now, at)
		got, due := s.Begin(head, s.at())
		testkit.Check(s.t, due && got.Reserves() == want && !(want && got.Probes()), "due: %v, it reserves: %v, probes: %v", due, got.Reserves(), got.Probes())
	}
}

// leaves removes the head.
func leaves(s *scenario) {
	head, _, _ := s.Next()
	if head == nil {
		head = s.waiter
	}
	s.Leave(head)
}

// leavesFromBehind removes the last waiter, which is not the head.
func leavesFromBehind(s *scenario) {
	s.t.Helper()
	if s.Alone() {
		s.t.Fatal("no waiter is behind the head")
	}
	s.Leave(s.ring.prev)
}

// in fails the test unless the next attempt is due between least and most from now.
func in(least, most time.Duration) event {
	return func(s *scenario) {
		s.t.Helper()
		_, at, ok := s.Next()
		d := at.Sub(s.now)
		testkit.Check(s.t, ok && d >= least && d <= most, "the next attempt is in %v (%v), want %v to %v", d, ok, least, most)
	}
}

// at fails the test unless the next attempt has that approach and is due in exactly that many
// steps.
func at(steps int, approach Approach) event {
	return func(s *scenario) {
		s.t.Helper()
		in(time.Duration(steps)*step, time.Duration(steps)*step)(s)
		as(approach)(s)
	}
}

func as(approach Approach) event {
	return func(s *scenario) {
		s.t.Helper()
		testkit.Check(s.t, s.approach == approach, "the next attempt has approach %d, want %d", s.approach, approach)
	}
}

var polls = in(firstPoll, lastPoll)

// stays fails the test if the events move the next attempt.
func stays(events ...event) event {
	return func(s *scenario) {
		s.t.Helper()
		before := s.next
		s.play(events)
		testkit.Equal(s.t, s.next, before, "the next attempt")
	}
}

func none(s *scenario) {
	s.t.Helper()
	_, _, ok := s.Next()
	testkit.Check(s.t, !ok, "an attempt is to come")
}

func (s *scenario) play(events []event) {
	s.t.Helper()
	for _, e := range events {
		e(s)
	}
}

// listening makes a waiter with subscriptions on all nodes, which all nodes refused while that many
// other processes subscribed.
func listening(others int) event {
	return func(s *scenario) {
		begin(s)
		for i := range s.quorum.N {
			s.Subscribed(i, s.at())
		}
		s.Refused(heldBy(others), s.at())
		refused(AskAll, heldBy(others))(s) // once more: the subscriptions stand
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name          string
		nodes, quorum int // 3 and 2 if it is 0
		events        []event
	}{
		// The first attempt, and the calls that join meanwhile.
		{name: "the first attempt asks all nodes at once", events: []event{at(0, AskAll)}},
		{name: "one attempt at a time", events: []event{begin, joins(usual), none}},
		{name: "the next waiter polls after the first acquired, until subscriptions stand",
			events: []event{joins(usual), acquires(time.Minute), in(5*ms, 15*ms), subscribed(0, 1),
				at(0, ProbeFirst)}},
		{name: "the next waiter attempts at once when the head leaves during its attempt",
			events: []event{joins(usual), begin, leaves, at(0, AskAll)}},
		{name: "the head's attempt goes on when another waiter leaves",
			events: []event{joins(usual), listening(0), begin, passes(ms), leavesFromBehind, none,
				messages(0, 1), none, ends(heldBy(0)), at(0, AskAll)}},
		{name: "the head's next attempt stays when another waiter leaves",
			events: []event{joins(usual), listening(0), leavesFromBehind, polls}},
		{name: "an empty queue makes no attempt", events: []event{leaves, none}},
		{name: "the next waiter polls after an acquisition", events: []event{joins(usual), hasten, begin, hasten, none,
			ends(heldBy(0)), acquires(time.Minute), in(5*ms, 15*ms)}},
		{name: "or attempts at once if more may be had", events: []event{joins(usual), acquires(time.Minute), hasten, at(0, AskAll)}},

		// In the queue for a semaphore a position counts one less: the first two processes attempt at once after a release, and
		// the second one probes.
		{name: "a shared release, no others", events: []event{share, listening(0), messages(0, 1), at(0, AskAll)}},
		{name: "a shared release, one other", events: []event{share, listening(1), messages(0, 1), at(0, ProbeFirst)}},
		{name: "a shared release, three others", events: []event{share, listening(3), messages(0, 1), at(2, ProbeFirst)}},

		// A release counts when a quorum has published it.
		{name: "1 of 1 is a release", nodes: 1, quorum: 1, events: []event{listening(0), messages(0), in(0, 0)}},
		{name: "2 of 3 are a release",
			events: []event{listening(0), messages(0), in(1, 4*step), as(ProbeFirst), messages(2), at(0, AskAll)}},
		{name: "the same node twice is no second node",
			events: []event{listening(0), messages(0, 0), in(1, 4*step), as(ProbeFirst)}},
		{name: "2 of 5 are none", nodes: 5, quorum: 3,
			events: []event{listening(0), messages(0, 1), in(1, 4*step), messages(4), at(0, AskAll)}},
		{name: "all of 3, and only the probe keeps order", quorum: 3,
			events: []event{listening(0), messages(0, 1), in(1, 4*step), messages(2), at(0, ProbeFirst)}},
		{name: "the rest of a release is no other", nodes: 5, quorum: 3,
			events: []event{listening(0), messages(0, 1, 2), refused(AskAll, heldBy(0)), messages(3, 4), polls}},
		{name: "a release during the attempt leads to another",
			events: []event{listening(0), begin, messages(0, 1), ends(heldBy(0)), at(0, AskAll),
				refused(AskAll, heldBy(0)), polls}},
		{name: "a message during the attempt leads to another", // the other messages may be lost
			events: []event{listening(0), begin, messages(2), ends(heldBy(0)), in(1, 4*step), as(ProbeFirst)}},
		{name: "the rest of a release during the attempt leads to none",
			events: []event{listening(0), messages(0, 1), begin, messages(2), ends(heldBy(0)), polls}},
		{name: "messages from before a subscription count no more", events: []event{listening(0), unsubscribed(2),
			times(4, messages(0, 1)), subscribed(2), refused(AskAll, heldBy(0)), unsubscribed(0),
			messages(1, 2), in(0, 0)}},

		{name: "a message by another name's subscription, which comes before the first name's",
			events: []event{refused(AskAll, heldBy(0)), messages(0, 1), at(0, ProbeFirst)}},

		// Positions.
		{name: "the last of four lets three releases pass",
			events: []event{listening(3), messages(0, 1), at(3, ProbeFirst),
				messages(0, 1), at(2, ProbeFirst), messages(0, 1), at(1, ProbeFirst), messages(0, 1), at(0, AskAll)}},
		{name: "a position does not rise",
			events: []event{listening(2), messages(0, 1), refused(ProbeFirst, heldBy(7)),
				messages(0, 1), at(1, ProbeFirst), messages(0, 1), at(0, AskAll)}},
		{name: "a position falls with the number of subscribers",
			events: []event{listening(7), refused(AskAll, heldBy(1)), messages(0, 1), at(1, ProbeFirst)}},
		{name: "a refusal that says no number of subscribers leaves the position",
			events: []event{listening(3), refused(AskAll, Result{Held: true, Wait: -1}), messages(0, 1), at(3, ProbeFirst)}},
		{name: "a position costs at most maxPosition steps",
			events: []event{listening(10_000), messages(0, 1), at(maxPosition, ProbeFirst)}},
		{name: "nor more after a refusal by the probe node",
			events: []event{listening(10_000), refused(ProbeFirst, heldBy(10_000)), at(probeRefusalSteps+maxPosition, AskAll)}},
		{name: "nor more after a message that is no release",
			events: []event{listening(10_000), messages(0), in(1, (2+maxPosition)*step), as(ProbeFirst)}},
		{name: "a release during the attempt lowers the position, too",
			events: []event{listening(5), begin, messages(0, 1), ends(heldBy(7)), at(4, ProbeFirst),
				messages(0, 1), at(3, ProbeFirst)}},
		{name: "a position counted without subscriptions leads to a probe",
			events: []event{refused(AskAll, heldBy(0)), subscribed(0),
				messages(0), subscribed(1), messages(0, 1), as(ProbeFirst)}},
		{name: "the next waiter of the process starts at position 0 without other processes",
			events: []event{joins(usual), listening(0), messages(0, 1), acquires(time.Minute), polls,
				messages(0, 1), at(0, AskAll)}},
		{name: "after an acquisition the next waiter is behind the other processes",
			events: []event{joins(usual), listening(2), messages(0, 1), acquires(time.Minute),
				messages(0, 1), at(2, ProbeFirst)}},

		// A process that has just released the lock.
		{name: "goes behind those that heard it", events: []event{yields(2), at(3, ProbeFirst), subscribed(0, 1, 2),
			at(3, ProbeFirst), messages(0, 1), at(1, ProbeFirst), messages(0, 1), at(0, AskAll)}},
		{name: "waits at most maxPosition steps for them", events: []event{yields(10_000), at(1+maxPosition, ProbeFirst)}},
		{name: "does not hear its own release",
			events: []event{yields(1), messages(0, 1), at(2, ProbeFirst), subscribed(0, 1), messages(2), at(2, ProbeFirst)}},
		{name: "waits like others after its first attempt",
			events: []event{yields(2), begin, ends(heldBy(2)), passes(ms), subscribed(0, 1), at(0, ProbeFirst),
				refused(AskAll, heldBy(2)), messages(0, 1), at(2, ProbeFirst)}},
		{name: "goes behind them with its other waiters, too",
			events: []event{yields(2), joins(usual), leaves, at(3, ProbeFirst), acquires(time.Minute), none}},
		{name: "whose next waiter is behind them again",
			events: []event{yields(2), joins(usual), subscribed(0, 1), acquires(time.Minute),
				messages(0, 1), at(2, ProbeFirst)}},

		// Refusals.
		{name: "by the probe node alone",
			events: []event{listening(0), refused(ProbeFirst, with(heldBy(0), left(0))),
				at(probeRefusalSteps, AskAll)}},
		{name: "by the probe node where all are needed", quorum: 3,
			events: []event{listening(0), refused(ProbeFirst, heldBy(0)), polls}},
		{name: "until the lease ends",
			events: []event{listening(3), refused(AskAll, with(heldBy(3), left(30*ms))),
				in(30*ms+1, 31*ms+3*step), as(AskAll)}},
		{name: "until the lease of another waiter of the process ends",
			events: []event{joins(usual), listening(0), messages(0, 1), acquires(30 * ms),
				in(30*ms+1, 31*ms+3*step)}},
		{name: "until then, and no longer, behind other processes",
			events: []event{joins(usual), listening(3), acquires(30 * ms), in(30*ms+1, 31*ms)}},
		{name: "by readers, after a probe that reserved only there",
			events: []event{listening(0), refused(AskAll, with(heldBy(0), byReaders)), at(0, AskAll),
				refused(ProbeFirst, with(heldBy(0), byReaders)), at(0, AskAll)}},
		{name: "by readers: the reservations are refreshed before they end, whatever the bounds",
			events: []event{settings(longRetry), listening(0), times(2, refused(AskAll, with(heldBy(0), byReaders))),
				in(1, ReservationLife/2), as(AskAll)}},
		{name: "by readers: all attempts reserve from then on, until the grant",
			events: []event{joins(usual), reserves(false), ends(with(heldBy(0), byReaders)), in(0, 0), reserves(true),
				ends(with(heldBy(0), byReaders)), in(1, ReservationLife/2), reserves(true), ends(heldBy(0)), reserves(true),
				acquired, reserves(false)}},
		{name: "by readers, and a message that may be an echo: all nodes have the reservation",
			events: []event{listening(3), refused(AskAll, with(heldBy(3), byReaders, votes(1))), begin, passes(5 * step),
				messages(0, 1), ends(with(heldBy(3), byReaders, votes(1))), in(1, ReservationLife/2)}},
		{name: "a split vote",
			events: []event{listening(0), refused(AskAll, with(heldBy(0), votes(1))), in(step/2, step/2+2*step),
				as(ProbeFirst)}},
		{name: "the backoff after split votes is bounded",
			events: []event{listening(7), times(40, refused(AskAll, with(heldBy(7), votes(1)))),
				in(step/2, step/2+maxBackoff)}},
		{name: "a split vote and the end of the lease",
			events: []event{listening(7), times(40, refused(AskAll, with(heldBy(7), votes(1), left(5*ms)))),
				in(1, 6*ms)}},
		{name: "the backoff grows with messages during attempts", events: []event{listening(0),
			times(20, begin, messages(2), ends(heldBy(0))), in(maxBackoff/2, maxBackoff)}},
		{name: "the backoff grows with refusals by the probe node",
			events: []event{listening(0), times(20, refused(ProbeFirst, heldBy(0))), in(maxBackoff/2, maxBackoff)}},
		{name: "refusals by all nodes end the backoff",
			events: []event{listening(0), times(20, refused(AskAll, with(heldBy(0), votes(1)))), times(20, refused(AskAll, heldBy(0))),
				refused(AskAll, with(heldBy(0), votes(1))), in(step/2, step/2+2*step)}},
		{name: "a release ends the backoff",
			events: []event{listening(0), times(40, refused(AskAll, with(heldBy(0), votes(1)))), passes(step), messages(0, 1),
				at(0, AskAll),
				refused(AskAll, with(heldBy(0), votes(1))), in(step/2, step/2+2*step)}},
		// Votes of several attempts that are given back look like a release.
		{name: "no release is heard within a step after a split vote",
			events: []event{listening(0), refused(AskAll, with(heldBy(0), votes(1))), passes(step - 1), messages(0, 1),
				in(step/2-step, step/2+2*step-step+1), as(ProbeFirst)}},
		{name: "nor within four times the attempt",
			events: []event{listening(0), times(5, refused(AskAll, with(heldBy(0), votes(1)))),
				begin, passes(20 * ms), ends(with(heldBy(0), votes(1))), passes(80*ms - 1), messages(0, 1),
				in(step/2-80*ms, step/2+64*step-80*ms+1), as(ProbeFirst), passes(1), messages(0, 1), at(0, AskAll)}},
		{name: "nor during an attempt that began within that time, and got votes",
			events: []event{listening(0), refused(AskAll, with(heldBy(0), votes(1))), begin, passes(5 * step), messages(0, 1),
				ends(with(heldBy(0), votes(1))), in(step/2, step/2+4*step), as(ProbeFirst)}},
		{name: "what may be an echo still leads to a probe", // it is of the holder, and node 0, of the echo before, has died
			events: []event{listening(0), begin, passes(20 * ms), ends(with(heldBy(0), votes(1))), messages(0),
				refused(AskAll, heldBy(0)), polls, passes(79 * ms), messages(1, 2), in(1, 4*step), as(ProbeFirst)}},
		{name: "a release during an attempt that got votes, after no other", // its rival had the lock
			events: []event{listening(0), begin, passes(5 * step), messages(0, 1), ends(with(heldBy(0), votes(1))), at(0, AskAll)}},
		{name: "a release during an attempt that began within that time, and got none",
			events: []event{listening(0), refused(AskAll, with(heldBy(0), votes(1))), begin, passes(5 * step), messages(0, 1),
				ends(heldBy(0)), at(0, AskAll)}},
		{name: "an acquisition ends the backoff",
			events: []event{joins(usual), listening(0), times(40, refused(AskAll, with(heldBy(0), votes(1)))),
				acquires(time.Minute), refused(AskAll, with(heldBy(0), votes(1))), in(step/2, step/2+2*step)}},

		// Subscriptions.
		{name: "enough come to stand", nodes: 5, quorum: 3,
			events: []event{refused(AskAll, with(heldBy(0), left(time.Minute))), passes(1), subscribed(4, 2),
				in(1, 15*ms), subscribed(0), at(0, ProbeFirst), refused(AskAll, heldBy(0)), subscribed(1), polls}},
		{name: "enough come to stand during an attempt",
			events: []event{begin, subscribed(0, 2), ends(heldBy(0)), at(0, ProbeFirst),
				refused(AskAll, heldBy(0)), polls}},
		{name: "enough are left", events: []event{listening(0), unsubscribed(0), polls}},
		{name: "too few are left",
			events: []event{listening(0), unsubscribed(0), unsubscribed(1), in(5*ms, 15*ms),
				refused(AskAll, heldBy(0)), in(5*ms, 25*ms),
				subscribed(0), at(0, ProbeFirst), refused(AskAll, heldBy(0)), polls}},
		{name: "too few during an attempt",
			events: []event{listening(0), begin, unsubscribed(0), unsubscribed(1), ends(heldBy(0)),
				in(5*ms, 15*ms)}},

		// Nodes that fail.
		{name: "unavailable nodes: after the retry time",
			events: []event{listening(0), refused(AskAll, with(heldBy(0), unavailable)), in(5*ms, 15*ms),
				as(AskAll)}},
		{name: "unavailable nodes: the retry time grows",
			events: []event{times(20, refused(AskAll, with(heldBy(0), unavailable))), in(5*ms, 205*ms)}},
		{name: "unavailable nodes: the retry time starts over after a refusal",
			events: []event{listening(0), times(20, refused(AskAll, with(heldBy(0), unavailable))),
				refused(AskAll, heldBy(0)), refused(AskAll, with(heldBy(0), unavailable)), in(5*ms, 15*ms)}},
		{name: "unavailable nodes: the retry time starts over with the subscriptions",
			events: []event{times(21, refused(AskAll, with(heldBy(0), unavailable))), subscribed(0, 1),
				refused(AskAll, with(heldBy(0), unavailable)), in(5*ms, 15*ms)}},
		{name: "nodes in quarantine: polls",
			events: []event{listening(0), times(20, refused(AskAll, with(heldBy(0), unavailable, left(time.Minute)))), polls}},
		{name: "nodes in quarantine, without subscriptions: the retry time",
			events: []event{refused(AskAll, with(heldBy(0), unavailable, left(time.Minute))), in(5*ms, 15*ms)}},
		{name: "unavailable nodes: by the end of the quarantine",
			events: []event{times(20, refused(AskAll, with(heldBy(0), unavailable, left(3*ms)))), in(0, 4*ms)}},

		// The shortest retry bounds of the waiters: a poll comes after 2.5 to 5 times the longer
		// one.
		{name: "shorter bounds behind the head",
			events: []event{settings(longRetry), listening(0), in(150*time.Minute, 300*time.Minute),
				joins(usual), polls, refused(AskAll, heldBy(0)), polls}},
		{name: "shorter bounds behind a head that left",
			events: []event{settings(longRetry), listening(0), joins(usual), leaves, polls}},
		{name: "the same bounds behind the head", events: []event{listening(0), stays(times(10, joins(usual)))}},
		{name: "longer bounds behind the head", events: []event{listening(0), joins(longRetry), polls}},
		{name: "the shorter bounds leave",
			events: []event{joins(longRetry), leaves, listening(0), in(150*time.Minute, 300*time.Minute)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			newScenario(t, cmp.Or(c.nodes, 3), cmp.Or(c.quorum, 2)).play(c.events)
		})
	}
}

// Waiters leave from any place, and the order of the others stays.
func TestFIFO(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := newScenario(t, 3, 2)
	order := []*Waiter{s.waiter}
	for range 2000 {
		gone := new(Waiter)
		switch {
		case len(order) == 0 || rng.IntN(2) == 0:
			w := new(Waiter)
			order = append(order, w)
			s.Join(w, usual, s.at())
		case rng.IntN(3) == 0:
			begin(s)
			s.Acquired(time.Minute, s.at())
			gone, order = order[0], order[1:]
		default:
			i := rng.IntN(len(order))
			gone = order[i]
			s.Leave(gone)
			order = append(order[:i:i], order[i+1:]...)
		}
		if gone.prev != nil || gone.next != nil { // a queue that contains its first waiter would keep all that came after
			t.Fatal("a waiter that has left refers to another")
		}
		head, _, ok := s.Next()
		testkit.Require(t, ok == (len(order) > 0) && (!ok || head == order[0]) && s.Empty() != ok,
			"the head is not the first of %d waiters", len(order))
	}
	for _, w := range order {
		s.Leave(w)
	}
	testkit.Check(t, s.Empty() && len(s.retries) == 0,
		"%d bounds are left in a queue that is empty: %v", len(s.retries), s.Empty())
}

// A call that acquires the lock at once makes no source of jitter, which costs more than the rest of its queue.
func TestNoJitterWithoutContention(t *testing.T) {
	var q Queue
	var w Waiter
	at := Moment{Now: clock.Instant(time.Hour), Step: step}
	q.Init(quorate.Majority(3), Alone, func() *rand.Rand {
		t.Error("a source of jitter")
		return rand.New(rand.NewPCG(1, 2))
	})
	q.Join(&w, usual, at)
	_, due := q.Begin(&w, at)
	testkit.Require(t, due, "the attempt is not due")
	q.Acquired(time.Minute, at)
}

// The backoff doubles with each split vote, from two steps on.
func TestBackoffDoubles(t *testing.T) {
	for splits := 1; splits <= 5; splits++ {
		most, longest := step<<splits, time.Duration(0)
		for range 50 {
			s := newScenario(t, 3, 2)
			s.rng = rand.New(rand.NewPCG(rand.Uint64(), 1))
			times(splits, refused(AskAll, with(heldBy(0), votes(1))))(s)
			in(step/2, step/2+most)(s)
			longest = max(longest, s.next.Sub(s.now))
		}
		testkit.Check(t, longest >= most/2, "after %d split votes at most %v until the next attempt", splits, longest)
	}
}

// Alongside a holder of a bare quorum waiters get the vote that it lacks, give it back, and so wake
// each other. The backoff must slow that down.
func TestBareQuorum(t *testing.T) {
	s := newScenario(t, 3, 2)
	listening(7)(s)
	attempts, began := 0, s.now
	for s.now.Sub(began) < 10*time.Second {
		_, at, _ := s.Next()
		s.now = max(s.now, at)
		approach, _ := s.Begin(s.waiter, s.at())
		r := with(heldBy(7), left(time.Minute))
		if approach == AskAll || attempts%2 == 0 {
			r.Votes = 1
		}
		attempts++
		s.Refused(r, s.at())
		s.Message(2, s.at()) // a vote given back by another process
	}
	testkit.Check(t, attempts <= 100, "%d attempts in 10s", attempts)
	messages(0, 1)(s) // the holder's release, from the other two nodes
	in(0, maxPosition*step)(s)
}

// The retry time grows to its bound while no release can be heard, and starts over after an
// acquisition.
func TestRetryGrows(t *testing.T) {
	for _, r := range []Result{heldBy(0), with(heldBy(0), unavailable)} {
		s := newScenario(t, 3, 2)
		var mean time.Duration
		for i := range 120 {
			refused(AskAll, r)(s)
			in(usual.Min/2, usual.Min/2+usual.Max)(s)
			if i >= 20 {
				mean += s.next.Sub(s.now) / 100
			}
		}
		testkit.Check(t, mean >= usual.Max/4 && mean <= usual.Max, "the retry time is %v in the end", mean)
		joins(usual)(s)
		acquires(time.Minute)(s)
		in(usual.Min/2, 3*usual.Min/2)(s)
	}
}

// After any sequence of events, the next attempt is due within the time of a poll.
func TestAnAttemptIsAlwaysDue(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		nodes := []int{1, 3, 5}[seed%3]
		quorum := nodes/2 + 1
		if seed%2 == 0 {
			quorum = nodes
		}
		s := newScenario(t, nodes, quorum)
		bound := lastPoll + maxPosition*step + ms
		for i := range 400 {
			s.now = s.now.Add(time.Duration(rng.IntN(3000)) * time.Microsecond)
			if s.Empty() {
				joins(usual)(s)
			}
			if s.attempting {
				s.Refused(Result{
					Held: rng.IntN(8) > 0, Wait: time.Duration(rng.IntN(31_000)-1000) * ms,
					Votes: rng.IntN(quorum), Listeners: rng.IntN(40),
				}, s.at())
			}
			switch rng.IntN(8) {
			case 0, 1:
				s.Message(rng.IntN(nodes), s.at())
			case 2:
				s.Subscribed(rng.IntN(nodes), s.at())
			case 3:
				s.Unsubscribed(rng.IntN(nodes), s.at())
			case 4:
				acquires(time.Duration(rng.IntN(30_000)) * ms)(s)
			case 5:
				joins(usual)(s)
			case 6:
				s.Leave(s.head())
			case 7:
				begin(s)
			}
			_, at, ok := s.Next()
			if s.Empty() || s.attempting {
				continue
			}
			if d := at.Sub(s.now); !ok || d > bound {
				t.Fatalf("seed %d, event %d: the next attempt is in %v, want within %v", seed, i, d, bound)
			}
		}
	}
}

// Only the head attempts, once its attempt is due, and once at a time.
func TestWhoBegins(t *testing.T) {
	s, second := newScenario(t, 3, 2), new(Waiter)
	s.Join(second, usual, s.at())
	begins := func(w *Waiter, want bool, when string) {
		_, due := s.Begin(w, s.at())
		testkit.Equal(t, due, want, "an attempt is due "+when)
	}
	begins(second, false, "behind the head")
	begins(s.waiter, true, "at first")
	begins(s.waiter, false, "during another")
	ends(heldBy(0))(s)
	begins(s.waiter, false, "before its time")
}
