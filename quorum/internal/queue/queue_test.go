package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// inList runs a test in a bubble, with a list of an engine on three masters.
func inList(t *testing.T, test func(t *testing.T, l *list)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, 3)
		nodes := w.NewProcess().Nodes(node.WithoutQuarantine())
		e := engine.New(engine.Config{Nodes: nodes, Quorum: quorate.Majority(3), Clock: w.Clock, UUID: "test", Founds: true})
		t.Cleanup(func() { e.Close(); <-e.Idle() })
		l := &list{t, w.Masters, NewList(e, rand.NewPCG(1, 2), errHeld)}
		test(t, l)
		synctest.Wait()
		testkit.Check(t, len(l.queues) == 0 && l.Len() == 0, "%d queues with %d calls are left", len(l.queues), l.Len())
	})
}

var errHeld = errors.New("held")

type list struct {
	t       *testing.T
	masters []*fakeredis.Master
	*List
}

// A key stands for one set of names, in any order.
func TestKeys(t *testing.T) {
	testkit.Check(t, NewKey([]string{"a", "b"}, false) == NewKey([]string{"b", "a"}, false), "the order counts")
	of := map[Key][]string{}
	for _, names := range [][]string{{"a"}, {"a", "b"}, {"a", "c"}, {"ab", "c"}, {"a", "bc"}, {"1:a1:b"}} {
		key := NewKey(names, false)
		other, found := of[key]
		testkit.Check(t, !found, "%q and %q have one key", names, other)
		of[key] = names
	}
}

// joins puts a call for the names into its queue.
func (l *list) joins(readers bool, names ...string) *Place {
	return l.waits(Wanted{Key: NewKey(names, readers), Keys: scripts.NewNames(nil, names)}, time.Minute)
}

// waits puts a call into its queue.
func (l *list) waits(want Wanted, retry time.Duration) *Place {
	p := l.calls(want, retry)
	p.join(new(queue))
	return p
}

// calls has a call for what it wants, before it is in a queue.
func (l *list) calls(want Wanted, retry time.Duration) *Place {
	return &Place{list: l.List, at: l.Engine.Moment(), want: want, retry: waiting.Retry{Min: retry, Max: retry}}
}

// begins wants an attempt of the call to be due or not, and begins it.
func (l *list) begins(p *Place, want bool) {
	l.t.Helper()
	if _, due := p.begin(l.Engine.Moment()); due != want {
		l.t.Fatalf("an attempt is due: %v", due)
	}
}

// refuses ends an attempt of the call that was refused.
func refuses(p *Place, channels ...string) {
	p.want.Keys = scripts.NewNames(nil, channels)
	p.Refused(waiting.Result{Held: true, Wait: -1}, waiting.AskAll, errHeld)
}

// wants wants the call to have been woken, or not.
func (l *list) wants(p *Place, woken bool) {
	l.t.Helper()
	synctest.Wait()
	testkit.Check(l.t, (len(p.wake) > 0) == woken, "the waiter was woken: %v", !woken)
}

// A node counts as subscribed by the channel of the first name alone: the others' confirmations and
// losses change nothing.
func TestQueueCountsTheSubscriptionsOfTheFirstName(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		p := l.joins(false, "a", "b")
		defer p.Leave()
		p.queue.subscribed = true // the test says of what
		attempt := func() {
			t.Helper()
			l.begins(p, true)
			refuses(p)
		}
		attempt()
		due := func() clock.Instant {
			l.mu.Lock()
			defer l.mu.Unlock()
			_, at, _ := p.queue.Next()
			return at
		}
		onAll := func(firstName bool, event func(*subscriber)) (moved bool) {
			before := due()
			for i := range l.Engine.Nodes {
				event(&subscriber{queue: p.queue, node: i, firstName: firstName})
			}
			return due() != before
		}
		testkit.Check(t, !onAll(false, (*subscriber).OnSubscribed), "another name's subscriptions count as the nodes'")
		testkit.Check(t, onAll(true, (*subscriber).OnSubscribed), "the first name's subscriptions do not count as the nodes'")
		attempt()               // asks the probe node
		time.Sleep(time.Second) // some steps
		attempt()               // asks all nodes, and then comes a poll
		testkit.Check(t, !onAll(false, (*subscriber).OnUnsubscribed), "the loss of another name's subscriptions counts as the nodes'")
		testkit.Check(t, onAll(true, (*subscriber).OnUnsubscribed), "the loss of the first name's subscriptions does not count as the nodes'")
	})
}

// A head that leaves during its attempt loses no event: the next waiter attempts at once.
func TestQueueAttemptsAgainAfterALeaveDuringAnAttempt(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		first, second := l.joins(false, "a"), l.joins(false, "a")
		l.begins(first, true)
		synctest.Wait()
		l.begins(second, false)
		first.released(l)
		first.Leave()
		l.wants(second, true)
		l.begins(second, true)
		refuses(second, "a")
		l.begins(second, false) // without an event
		third, fourth := l.joins(false, "a"), l.joins(false, "a")
		for len(second.wake) > 0 {
			<-second.wake
		}
		fourth.Leave()
		l.wants(second, false)
		l.begins(second, false) // one that leaves from behind is no event
		second.Leave()
		l.begins(third, false)
		third.Leave()
	})
}

// After an acquisition, the next waiter attempts by a poll, not at once: what was released meanwhile may be what was acquired.
func TestQueueWaitsAfterAnAcquisition(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		time.Sleep(time.Hour)
		first, second := l.joins(false, "a"), l.joins(false, "a")
		l.begins(first, true)
		synctest.Wait() // the subscriptions stand: from then on an attempt would be due
		first.released(l)
		first.Acquired(time.Minute, false)
		l.begins(second, false)
		second.Leave()
	})
}

// A call behind others yields to nobody: its queue did, if it had to.
func TestACallBehindOthersDelaysNone(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		first := l.joins(false, "a")
		next := func() clock.Instant { _, at, _ := first.queue.Next(); return at }
		before := next()
		l.History.Released(first.want.Key.Hash(), 1, l.Engine.Clock.Now())
		second := l.joins(false, "a")
		testkit.Check(t, next() == before, "the first one's attempt is due %v later", next().Sub(before))
		second.Leave()
		first.Leave()
	})
}

// The next call for names whose queue has just ended asks one node first: others may wait for them yet.
func TestNamesStayContendedForATime(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		for _, want := range []waiting.Approach{waiting.Alone, waiting.ProbeFirst} {
			p := l.joins(false, "a")
			turn, due := p.begin(l.Engine.Moment())
			testkit.Check(t, due && turn.Approach == want, "due: %v, approach %d, want %d", due, turn.Approach, want)
			refuses(p, "a")
			p.Leave()
		}
	})
}

// released is the holder's release, as the call's queue hears it.
func (p *Place) released(l *list) {
	for i := range l.Engine.Nodes {
		(&subscriber{queue: p.queue, node: i, firstName: true}).OnMessage()
	}
}

// Readers ask alongside each other, in no queue, until one is refused.
func TestReadersDoNotQueueAtFirst(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		enter := func() *Place {
			return l.Enter(Wanted{Key: NewKey([]string{"a"}, true), Keys: testkit.Names("a")}, waiting.Retry{})
		}
		for range 2 {
			p := enter()
			testkit.Require(t, p.queue == nil, "a reader whom nobody refused is in a queue")
			turn, due := p.Next(t.Context())
			testkit.Check(t, due && turn.Approach == waiting.Alone, "%v, due: %v", turn, due)
		}
		refused, alongside := enter(), enter()
		refuses(refused, "a")
		counts := alongside.Refused(waiting.Result{Held: true, Wait: -1}, waiting.Alone, errHeld)
		testkit.Check(t, !counts, "an attempt alongside the queue counts as the queue's")
		alongside.Leave()
		behind := enter()
		l.begins(behind, false)
		behind.Leave()
		refused.Leave()
	})
}

// Among calls for slots, the next one attempts at once after one that got some, if more may be free, and after the first one
// that gives up and wanted several.
func TestCallsForSlotsFollowEachOther(t *testing.T) {
	for what, c := range map[string]struct {
		end  func(l *list, first, second *Place) (next *Place)
		want bool
	}{
		"no more are free": {func(_ *list, first, second *Place) *Place {
			first.Acquired(time.Minute, false)
			return second
		}, false},
		"more are free": {func(_ *list, first, second *Place) *Place {
			first.Acquired(time.Minute, true)
			return second
		}, true},
		"one was released": {func(l *list, first, second *Place) *Place {
			first.released(l)
			first.Acquired(time.Minute, false)
			return second
		}, true},
		"the first leaves": {func(_ *list, first, second *Place) *Place {
			refuses(first)
			first.Leave()
			return second
		}, true},
		"the second leaves": {func(_ *list, first, second *Place) *Place {
			refuses(first)
			second.Leave()
			return first
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			inList(t, func(t *testing.T, l *list) {
				enter := func() *Place { return l.waits(Wanted{Key: NewSlotsKey("a", 3), Slots: 2}, time.Minute) }
				first := enter()
				l.begins(first, true)
				next := c.end(l, first, enter())
				l.begins(next, c.want)
				next.Leave()
			})
		})
	}
}

// The second process that waits for a slot attempts at once after a release, and for a name one step later.
func TestCallsForSlotsShare(t *testing.T) {
	for slots, want := range map[int]bool{0: false, 1: true} {
		inList(t, func(t *testing.T, l *list) {
			p := l.waits(Wanted{Key: NewSlotsKey("a", 2), Slots: slots, Keys: testkit.Names("a")}, 0)
			for range 2 { // the second time, the subscriptions stand
				l.begins(p, true)
				p.Refused(waiting.Result{Held: true, Wait: -1, Listeners: 2}, waiting.AskAll, errHeld)
				synctest.Wait()
			}
			p.released(l)
			l.begins(p, want)
			p.Leave()
		})
	}
}

// The turn after a release has a node that published it: the one with which a quorum had. The next one has none.
func TestATurnHasWhoPublishedTheRelease(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		p := l.joins(false, "a")
		defer p.Leave()
		for _, want := range []int{-1, 1, -1} {
			turn, due := p.begin(l.Engine.Moment())
			testkit.Check(t, due && turn.Published == want, "due: %v, %+v, want %d", due, turn, want)
			refuses(p, "a")
			synctest.Wait()
			if want < 0 {
				p.released(l)
			} else {
				time.Sleep(5 * time.Minute) // until it polls
			}
		}
	})
}

// A timer may fire early by the Locker's clock: a waiter that wakes too early is woken again.
func TestQueueWakesAgainAfterAnEarlyTimer(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		p := l.joins(false, "a")
		for range 2 { // the second time, the subscriptions stand
			l.begins(p, true)
			refuses(p, "a")
			synctest.Wait()
		}
		for range 2 {
			l.begins(p, false)
			p.alarm.Stop() // as if it had fired
		}
		l.begins(p, false)
		select {
		case <-p.wake:
		case <-time.After(time.Hour):
			t.Error("nothing wakes the waiter")
		}
		p.Leave()
	})
}

// A call that leaves stops its timer: one of the longest bounds would keep it and its queue for hours.
func TestACallThatLeavesStopsItsTimer(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		p := l.joins(false, "a")
		l.begins(p, true)
		refuses(p)
		l.begins(p, false)
		p.alarm.Reset(time.Minute)
		p.Leave()
		testkit.Check(t, !p.alarm.Stop(), "it is still set")
	})
}

// A call behind it that polls often wakes the first one, but not among many queues: there the first does not poll often, either.
func TestWhenTheFirstPolls(t *testing.T) {
	for others, want := range map[int]bool{0: true, 200: false} {
		inList(t, func(t *testing.T, l *list) {
			join := func(retry time.Duration) *Place {
				return l.waits(Wanted{Key: NewKey([]string{"a"}, false)}, retry)
			}
			for i := range others {
				defer l.joins(false, fmt.Sprint(i)).Leave()
			}
			first := join(time.Millisecond)
			l.begins(first, true)
			refuses(first)
			time.Sleep(5 * time.Millisecond)
			l.begins(first, want)
			first.Leave()

			first = join(time.Minute)
			l.begins(first, true)
			refuses(first)
			l.begins(first, false)
			behind := join(time.Millisecond)
			time.Sleep(5 * time.Millisecond)
			l.wants(first, want)
			l.begins(first, want)
			behind.Leave()
			first.Leave()
		})
	}
}

// A call whose turn comes before its first look at the queue is still woken.
func TestACallIsWokenBeforeItWaits(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		first, second := l.joins(false, "a"), l.joins(false, "a")
		first.Leave()
		l.wants(second, true)
		second.Leave()
	})
}

// A reader joins the queue just as another is granted the name: it is let go before its first look at the
// queue, and asks at once.
func TestAReaderIsGoneBeforeItWaits(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		first := l.joins(true, "a")
		l.begins(first, true)
		second := l.joins(true, "a")
		first.Acquired(time.Second, false)
		l.begins(second, true)
		testkit.Check(t, !second.refused(waiting.Result{}, waiting.AskAll, errHeld), "it goes on as the first of a queue")
		second.Leave() // its context has ended meanwhile
	})
}

// meanwhile is a clock that runs something with each look at it.
type meanwhile struct {
	clock.Clock
	run func()
}

func (m meanwhile) Now() clock.Instant { m.run(); return m.Clock.Now() }

// A reader that is let go while it subscribes leaves no subscription.
func TestAReaderThatIsLetGoWhileItSubscribes(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		writer := l.joins(false, "a")
		l.begins(writer, true)
		refuses(writer, "a")
		synctest.Wait() // so the reader's subscriptions are confirmed as soon as it asks
		reader := l.joins(true, "a")
		usual := l.Engine.Clock
		l.Engine.Clock = meanwhile{usual, func() { // with the list's mutex locked
			if q := reader.queue; q != nil {
				q.letGoLocked()
				delete(l.queues, q.key)
			}
		}}
		reader.subscribe()
		l.Engine.Clock = usual
		defer reader.Leave()
		writer.Leave()
		time.Sleep(time.Second)
		for _, m := range l.masters {
			testkit.Equal(t, m.Listening(scripts.Channel("a")), 0, "subscriptions at a master")
		}
	})
}

// One that is let go before it subscribes does not subscribe.
func TestAReaderThatIsLetGoBeforeItSubscribes(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		first := l.joins(true, "a")
		l.begins(first, true)
		second := l.calls(first.want, time.Minute)
		second.enqueue(nil)
		first.Acquired(time.Second, false)
		second.subscribe()
		synctest.Wait()
		testkit.Equal(t, l.masters[0].Listening(scripts.Channel("a")), 0, "subscriptions")
	})
}

// Reservations that their call leaves behind are ended, and keep no Locker from closing: the end of the test waits for it.
func TestReservationsEndWithTheirCall(t *testing.T) {
	leaves, acquires := (*Place).Leave, func(p *Place) { p.Acquired(time.Second, false) }
	for _, ends := range [][]func(*Place){{leaves}, {acquires}, {acquires, leaves}, {acquires, acquires}, {leaves, leaves}} {
		inList(t, func(t *testing.T, l *list) {
			calls := make([]*Place, len(ends))
			for i := range calls {
				calls[i] = l.joins(false, "a")
			}
			l.begins(calls[0], true)
			calls[0].NoteReserved(l.hold())
			calls[0].NoteReserved(l.hold())
			for i, end := range ends {
				end(calls[i])
			}
		})
	}
}

// hold returns a hold that has asked for nothing.
func (l *list) hold() *engine.Hold {
	h := new(engine.Hold)
	h.Init(l.Engine, &engine.Terms{}, scripts.NewNames(nil, []string{"a"}), nil, nil)
	return h
}

// Reservations that are over are not kept, however often a call is refused.
func TestReservationsThatAreOverAreForgotten(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		p := l.joins(false, "a")
		for _, want := range []int{1, 2, 1} { // the third time, both are over
			p.NoteReserved(l.hold())
			l.joins(false, "a").Leave() // ends none
			testkit.Equal(t, len(p.queue.reserved), want, "reservations")
			time.Sleep(time.Duration(want)*waiting.ReservationLife + 1)
		}
		p.Acquired(time.Second, false)
	})
}

// A place is used again only if nobody else knows it: messages of its old names would wake the new call.
func TestWhichPlacesAreUsedAgain(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		want := Wanted{Key: NewKey([]string{"a"}, false), Keys: testkit.Names("a")}
		alone := l.Enter(want, waiting.Retry{})
		l.begins(alone, true)
		alone.Acquired(time.Second, false)
		testkit.Check(t, alone.list == nil, "one that was alone is not used again")
		subscribed, behind := l.Enter(want, waiting.Retry{}), l.Enter(want, waiting.Retry{})
		l.begins(subscribed, true)
		refuses(subscribed, "a")
		subscribed.Leave()
		behind.Leave()
		alone = l.Enter(want, waiting.Retry{})
		l.begins(alone, true)
		refuses(alone, "a")
		alone.Leave()
		testkit.Check(t, subscribed.list != nil && behind.list != nil && alone.list != nil, "one that others know is used again")
	})
}

// A place is not used again while its timer may send to it: here a reader has joined, has not subscribed, and is let go.
func TestAPlaceThatATimerKnowsIsNotUsedAgain(t *testing.T) {
	inList(t, func(t *testing.T, l *list) {
		want := Wanted{Key: NewKey([]string{"a"}, true), Keys: scripts.NewNames(nil, []string{"a"})}
		first, second := l.calls(want, time.Minute), l.calls(want, time.Minute)
		first.join(&first.first)
		second.enqueue(&second.first)
		l.begins(first, true)
		first.Acquired(time.Minute, false)
		testkit.Check(t, first.alarm != nil, "a place with a timer is put back")
		second.Leave()
	})
}
