package quorum

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// slotted is the slot in these tests.
const slotted = 2 * time.Millisecond

// bystander is a turn and what happens to it, at a time of its own.
type bystander struct {
	turn
	t   *testing.T
	set settings
	now clock.Instant
}

func newBystander(t *testing.T, nodes, need int) *bystander {
	return &bystander{turn: newTurn(nodes, need, rand.New(rand.NewPCG(1, 2))), t: t, set: defaults(), now: clock.Instant(time.Hour)}
}

// waiting is a bystander that listens to all nodes and was refused by all, while as many others waited.
func waiting(t *testing.T, nodes, need, others int) *bystander {
	b := newBystander(t, nodes, need)
	for i := range nodes {
		b.listening(i, b.now)
	}
	b.refused(b.set.retry, b.heldBy(others), b.now, slotted)
	return b
}

// heldBy is what an attempt leaves that all nodes refused, with others listening besides the one who asks.
func (b *bystander) heldBy(others int) *refusal {
	return &refusal{err: &Error{causes: []error{ErrNotAcquired, ErrHeld}}, how: everyone, saw: b.news, hint: -1, waiting: others + 1}
}

func (b *bystander) hear(nodes ...int) {
	for _, i := range nodes {
		b.heard(i, b.now, slotted)
	}
}

// asksIn fails the test unless the turn comes between least and most from now.
func (b *bystander) asksIn(least, most time.Duration) {
	b.t.Helper()
	if in := b.next.Sub(b.now); in < least || in > most {
		b.t.Errorf("the next attempt is in %v, want %v to %v", in, least, most)
	}
}

func (b *bystander) asks(how approach) {
	b.t.Helper()
	if b.how != how {
		b.t.Errorf("the next attempt is of kind %d, want %d", b.how, how)
	}
}

const poll = 500 * time.Millisecond // the shortest slow poll: 2.5 × 200 ms

// A release counts when as many nodes have told of it as the rule needs. Fewer lead to an attempt a little later; the same node
// twice is no second node.
func TestTurnCountsReleasesByTheRule(t *testing.T) {
	for _, rule := range []struct{ nodes, need int }{{1, 1}, {3, 2}, {5, 3}, {3, 3}} {
		b := waiting(t, rule.nodes, rule.need, 0)
		b.asksIn(poll, 2*poll)
		for i := range rule.need - 1 {
			b.hear(i)
			b.asksIn(1, 10*slotted)
			b.asks(knocking)
		}
		if rule.need > 1 {
			b.hear(0)
			b.asksIn(1, 10*slotted)
		}
		b.hear(rule.need - 1)
		b.asksIn(0, 0)
		if rule.need < rule.nodes {
			b.asks(everyone)
		} else {
			b.asks(knocking) // whoever is granted there can be beaten nowhere else
		}
		if b.freed != 1 {
			t.Errorf("%+v: %d releases, want 1", rule, b.freed)
		}
	}
}

// What the remaining nodes tell of a release that was counted is no news.
func TestTurnIgnoresTheRestOfARelease(t *testing.T) {
	b := waiting(t, 5, 3, 0)
	b.hear(0, 1, 2)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	b.hear(3, 4)
	b.asksIn(poll, 2*poll)
}

// A release that came while the nodes were asked may have been too late for them.
func TestTurnRemembersAReleaseWhileItAsked(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	r := b.heldBy(0)
	b.hear(0, 1)
	b.refused(b.set.retry, r, b.now, slotted)
	b.asksIn(0, 0)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	b.asksIn(poll, 2*poll)
}

// Whoever came later lets as many releases pass as others waited, and at each asks a slot later for every one that is still to
// come before. That the others are there is never relied on.
func TestTurnLetsOthersGoFirst(t *testing.T) {
	b := waiting(t, 3, 2, 3)
	for left := 3; left > 0; left-- {
		b.hear(0, 1)
		b.asksIn(time.Duration(left)*slotted, time.Duration(left)*slotted)
		b.asks(knocking)
	}
	b.hear(0, 1)
	b.asksIn(0, 0)
	b.asks(everyone)
}

// Asking again counts those ahead again, but nobody who came since.
func TestTurnKeepsItsPlace(t *testing.T) {
	b := waiting(t, 3, 2, 2)
	b.hear(0, 1)
	b.refused(b.set.retry, b.heldBy(7), b.now, slotted)
	b.hear(0, 1)
	b.asksIn(slotted, slotted)
	b.hear(0, 1)
	b.asksIn(0, 0)
}

// However many wait, nobody waits for all of them.
func TestTurnIsBounded(t *testing.T) {
	b := waiting(t, 3, 2, 10_000)
	b.hear(0, 1)
	b.asksIn(slotted, maxTurn*slotted)
}

// Each of several that hinder each other comes back soon, after a random time that grows.
func TestTurnAfterASplit(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	for splits := range 5 {
		most, longest := slotted<<(splits+1), time.Duration(0)
		for range 50 {
			b.splits, b.odd = splits, 0
			r := b.heldBy(0)
			r.votes = 1
			b.refused(b.set.retry, r, b.now, slotted)
			b.asksIn(slotted/2, slotted/2+most)
			b.asks(knocking)
			longest = max(longest, b.next.Sub(b.now))
		}
		if b.splits != splits+1 || longest < most/2 {
			t.Errorf("after %d splits: %d, and at most %v until the next attempt", splits, b.splits, longest)
		}
	}
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	if b.splits != 0 {
		t.Errorf("%d splits in a row, after an attempt without votes", b.splits)
	}
}

// Whoever is refused at the door asks everyone before long, since that node may stand alone. Where all are needed, it may not.
func TestTurnAfterAKnock(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	r := b.heldBy(0)
	r.how, r.hint = knocking, 0
	b.refused(b.set.retry, r, b.now, slotted)
	b.asksIn(2*slotted, 50*slotted)
	b.asks(everyone)

	b = waiting(t, 3, 3, 0)
	r = b.heldBy(0)
	r.how = knocking
	b.refused(b.set.retry, r, b.now, slotted)
	b.asksIn(poll, 2*poll)
}

// When enough subscriptions come to stand the lock is tried, once: it may have been released just before.
func TestTurnTriesAgainAfterSubscribing(t *testing.T) {
	b := newBystander(t, 5, 3)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	before := b.next
	b.listening(4, b.now)
	b.listening(2, b.now)
	if b.next != before {
		t.Error("it asks again with too few subscriptions")
	}
	b.listening(0, b.now)
	b.asksIn(0, 0)
	b.asks(knocking)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	b.listening(1, b.now)
	b.asksIn(poll, 2*poll)
}

// Whoever had already asked when enough subscriptions came to stand asks again: the nodes may have answered before a release, of
// which nobody told.
func TestTurnRemembersSubscriptionsWhileItAsked(t *testing.T) {
	b := newBystander(t, 3, 2)
	r := b.heldBy(0)
	b.listening(0, b.now)
	b.listening(2, b.now)
	b.refused(b.set.retry, r, b.now, slotted)
	b.asksIn(0, 0)
	b.asks(knocking)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	b.asksIn(poll, 2*poll)
}

// A holder that has no more nodes than it needs: those who wait get the other's vote, give it back, and tell each other so. That must
// not go on as fast as between contenders, nor hide the release.
func TestTurnCalmsDownWhenNodesDisagree(t *testing.T) {
	b := waiting(t, 3, 2, 7)
	for range 20 {
		split := b.heldBy(7)
		split.votes, split.hint = 1, time.Minute
		b.refused(b.set.retry, split, b.now, slotted)
		b.hear(2)
		knock := b.heldBy(7)
		knock.how = knocking
		b.refused(b.set.retry, knock, b.now, slotted)
		b.hear(2)
	}
	b.asksIn(maxLull, 2*maxLull)
	b.refused(b.set.retry, b.heldBy(7), b.now, slotted) // a third one had the vote
	b.hear(2)
	b.asksIn(maxLull/4, 2*maxLull)
	split := b.heldBy(7)
	split.votes, split.hint = 1, 5*time.Millisecond
	b.refused(b.set.retry, split, b.now, slotted)
	b.asksIn(1, 6*time.Millisecond) // the holder may have died
	b.hear(0)
	b.asksIn(0, maxTurn*slotted)
	if b.odd != 0 {
		t.Error("a release by the rule does not count")
	}
	b.passed(b.set.retry, b.now, time.Minute)
	b.hear(2)
	b.asksIn(1, maxTurn*slotted)
}

// What a node published while nobody listened to it is not waited for: it counts with the others at once when it is heard again.
func TestTurnDoesNotMissAMessageTwice(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	b.deaf(b.set.retry, 2, b.now)
	for range 4 {
		b.hear(0, 1)
	}
	b.listening(2, b.now)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	b.deaf(b.set.retry, 0, b.now)
	b.hear(1, 2)
	b.asksIn(0, 0)
}

// While too few subscriptions stand the nodes are asked at the retry times.
func TestTurnPollsWhileItIsDeaf(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	b.deaf(b.set.retry, 0, b.now)
	b.asksIn(poll, 2*poll) // two are enough
	b.deaf(b.set.retry, 1, b.now)
	b.asksIn(b.set.retry.min/2, b.set.retry.max)
	for range 20 {
		b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
		b.asksIn(b.set.retry.min/2, 2*b.set.retry.max)
	}
	var mean time.Duration
	for range 100 {
		b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
		mean += b.next.Sub(b.now) / 100
	}
	if mean < b.set.retry.max/4 {
		t.Errorf("it polls every %v for ever", mean)
	}
	b.passed(b.set.retry, b.now, time.Minute)
	b.asksIn(b.set.retry.min/2, 3*b.set.retry.min/2) // another one has got it: that begins anew
	b.listening(0, b.now)
	b.asksIn(0, 0)
	b.refused(b.set.retry, b.heldBy(0), b.now, slotted)
	b.asksIn(poll, 2*poll)
}

// One who waits by shorter bounds is asked for by them, also where nodes fail, and never later than it was to be.
func TestTurnHurries(t *testing.T) {
	long, short := bounds{time.Second, time.Hour}, bounds{time.Millisecond, 20 * time.Millisecond}
	b := waiting(t, 3, 2, 0)
	b.refused(long, b.heldBy(0), b.now, slotted)
	b.hurry(short, b.now)
	b.asksIn(50*time.Millisecond, 100*time.Millisecond)
	b.next = b.now.Add(time.Millisecond)
	b.hurry(short, b.now)
	b.asksIn(time.Millisecond, time.Millisecond)

	failed := &refusal{err: &Error{causes: []error{ErrNotAcquired, ErrUnavailable}}, saw: b.news, hint: -1}
	for range 20 {
		b.refused(long, failed, b.now, slotted)
	}
	b.hurry(short, b.now)
	b.asksIn(0, 21*time.Millisecond)
}

// Whoever joins and leaves, in whatever order, the bounds are the least of those who wait.
func TestEagernessAgainstOracle(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	q := &queue{}
	var all []*waiter
	for range 5000 {
		if len(all) > 0 && dice.IntN(2) == 0 {
			i := dice.IntN(len(all))
			q.removeLocked(all[i])
			q.eager.left(all[i].set.retry)
			all = slices.Delete(all, i, i+1)
		} else {
			least := time.Duration(1 + dice.IntN(4))
			w := &waiter{set: &settings{retry: bounds{least, least + time.Duration(dice.IntN(4))}}}
			q.addLocked(w, dice.IntN(2) == 0)
			q.eager.joined(w.set.retry)
			all = append(all, w)
		}
		if len(all) == 0 || dice.IntN(3) == 0 {
			continue
		}
		want := all[0].set.retry
		for _, w := range all {
			want.min, want.max = min(want.min, w.set.retry.min), min(want.max, w.set.retry.max)
		}
		if got := q.boundsLocked(); got != want {
			t.Fatalf("%d wait by %v, want %v", len(all), got, want)
		}
	}
}

// The lock is tried when what is left of its lease is over: its holder may have died.
func TestTurnAtTheEndOfTheLease(t *testing.T) {
	const left = 30 * time.Millisecond
	b := waiting(t, 3, 2, 0)
	r := b.heldBy(3)
	r.hint = left
	b.refused(b.set.retry, r, b.now, slotted)
	b.asksIn(left+1, left+time.Millisecond+3*slotted)
	b.asks(everyone)

	b.passed(b.set.retry, b.now, left)
	b.asksIn(left+1, left+time.Millisecond+3*slotted)
}

// Nodes that fail are tried again after times that grow, and no later than the end of a quarantine.
func TestTurnWhenNodesFail(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	r := &refusal{err: &Error{causes: []error{ErrNotAcquired, ErrUnavailable}}, saw: b.news, hint: -1}
	var longest time.Duration
	for range 20 {
		b.refused(b.set.retry, r, b.now, slotted)
		b.asksIn(b.set.retry.min/2, b.set.retry.min/2+b.set.retry.max)
		longest = max(longest, b.next.Sub(b.now))
	}
	if longest < b.set.retry.max/4 {
		t.Errorf("after 20 failures it waits %v at most", longest)
	}
	if b.last != r.err {
		t.Error("what the nodes said is not kept")
	}
	r.hint = 3 * time.Millisecond
	b.refused(b.set.retry, r, b.now, slotted)
	b.asksIn(0, 4*time.Millisecond)
}

// One in the same process has got the lock: its release is that of whoever is the next, when nobody else waits.
func TestTurnIsPassedOn(t *testing.T) {
	b := waiting(t, 3, 2, 0)
	b.hear(0, 1)
	b.passed(b.set.retry, b.now, time.Minute)
	b.asksIn(poll, 2*poll)
	b.hear(0, 1)
	b.asksIn(0, 0)
	b.asks(everyone)

	b = waiting(t, 3, 2, 2) // two others: they come first
	b.hear(0, 1)
	b.passed(b.set.retry, b.now, time.Minute)
	b.hear(0, 1)
	b.asksIn(2*slotted, 2*slotted)
}

// Whatever is heard, missed and answered, in whatever order, the nodes are asked again within the time of a slow poll.
func TestTurnAlwaysComes(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		nodes := []int{1, 3, 5}[seed%3]
		need := nodes/2 + 1
		if seed%2 == 0 {
			need = nodes
		}
		b := waiting(t, nodes, need, dice.IntN(40))
		bound := 2*poll + maxTurn*slotted + time.Millisecond
		for step := range 300 {
			b.now = b.now.Add(time.Duration(dice.IntN(3000)) * time.Microsecond)
			switch dice.IntN(6) {
			case 0, 1:
				b.hear(dice.IntN(nodes))
			case 2:
				b.listening(dice.IntN(nodes), b.now)
			case 3:
				b.deaf(b.set.retry, dice.IntN(nodes), b.now)
			case 4:
				b.passed(b.set.retry, b.now, time.Duration(dice.IntN(30_000))*time.Millisecond)
			case 5:
				r := b.heldBy(dice.IntN(40))
				r.votes, r.how, r.hint = dice.IntN(need), approach(dice.IntN(2)), time.Duration(dice.IntN(31_000)-1000)*time.Millisecond
				b.refused(b.set.retry, r, b.now, slotted)
			}
			if b.next.Before(b.now) {
				b.next = b.now // it would have asked
			}
			if in := b.next.Sub(b.now); in > bound {
				t.Fatalf("seed %d, step %d: the next attempt is in %v, want within %v", seed, step, in, bound)
			}
		}
	}
}
